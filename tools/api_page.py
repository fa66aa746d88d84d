"""The page of the HTTP interface, made from the OpenAPI document."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from durable_sessions.sessions.graph.schemas import TYPES

NOTE = "<!-- Made by `python -m tools.reference`; change the code, not this page. -->\n"
_QUIET = ("head", "options")


def api_page(document: dict[str, Any]) -> str:
    """Return the page as Markdown."""
    return f"{NOTE}# The HTTP interface\n\n" + "\n\n".join(_parts(document)) + "\n"


def _parts(document: dict[str, Any]) -> Iterator[str]:
    yield (
        "A running server shows the same at `/docs`, with examples that can be copied, and as OpenAPI 3.1 at "
        "`/openapi.json`.\nError codes are explained in [errors](errors.md)."
    )
    yield document["info"]["description"]
    for tag in document["tags"]:
        yield f"## {tag['name']}"
        yield tag["description"]
        for path, item in document["paths"].items():
            for method, operation in item.items():
                if tag["name"] in operation["tags"] and (
                    method not in _QUIET or "x-codeSamples" in operation
                ):
                    also = [
                        name.upper() for name in _QUIET if name in item and name != method and method == "get"
                    ]
                    yield from _operation(method, path, operation, also, document)
    yield "## Schemas"
    for name, schema in document["components"]["schemas"].items():
        if name in TYPES:
            continue  # they have a page of their own
        yield f"### {name}"
        if "description" in schema:
            yield schema["description"]
        rows = list(_members(schema))
        if rows:
            yield table(("member", "kind", "meaning"), rows)
        elif "properties" not in schema:
            yield kind_of(schema)


def _operation(
    method: str, path: str, operation: dict[str, Any], also: list[str], document: dict[str, Any]
) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`"
    text = f"**{operation['summary']}.** {operation['description']}".strip()
    if operation.get("security") == []:
        text += " Needs no key."
    if also:
        text += f" Also {' and '.join(also)}."
    yield text
    rows = [
        (f"`{one['name']}`", one["in"], kind_of(one["schema"]), one["description"])
        for one in operation["parameters"]
    ]
    if rows:
        yield table(("parameter", "in", "kind", "meaning"), rows)
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]
        kinds = ", ".join(f"`{media}` {kind_of(said['schema'])}" for media, said in content.items())
        yield f"Body: {kinds}. {operation['requestBody'].get('description', '')}".rstrip()
    for sample in operation.get("x-codeSamples", ())[:1]:
        yield f"```sh\n{sample['source']}\n```"
    yield table(("status", "answer"), list(_answers(operation, document)))


def _answers(operation: dict[str, Any], document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for status, answer in sorted(operation["responses"].items()):
        whole = answer
        if "$ref" in answer:
            whole = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
        text = whole["description"]
        if int(status) < 400:
            kinds = [f"`{media}` {kind_of(said['schema'])}" for media, said in whole["content"].items()]
            text = " ".join([text, "; ".join(kinds)]).strip()
        yield status, text


def _members(schema: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    for part in schema.get("allOf", ()):
        if "$ref" in part:
            yield "", kind_of(part), "All of its members."
        yield from _members(part, prefix)
    required = schema.get("required", ())
    for name, one in schema.get("properties", {}).items():
        optional = "" if name in required else ", optional"
        yield f"`{prefix}{name}`", kind_of(one) + optional, one.get("description", "")
        yield from _members(one, f"{prefix}{name}.")


def kind_of(schema: dict[str, Any]) -> str:
    """Return the type of a value in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        page = "events.md" if name in TYPES else ""
        return f"[{name}]({page}#{name.lower().replace('.', '')})"
    if "const" in schema:
        return f"`{schema['const']}`".replace("True", "true")
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(kind_of(one) for one in schema[several])
    types = schema.get("type", "any")
    words = [_word(one, schema) for one in ([types] if isinstance(types, str) else types)]
    return " or ".join(words)


def _word(name: str, schema: dict[str, Any]) -> str:
    if name == "array":
        return f"list of {kind_of(schema['items'])}"
    if name == "string":
        return {"date-time": "time", "binary": "bytes"}.get(schema.get("format", ""), "text")
    return {"integer": "whole number", "boolean": "true or false", "any": "any JSON"}.get(name, name)


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(
        "| " + " | ".join(re.sub(r"\|", "\\\\|", cell) for cell in line) + " |" for line in lines
    )
