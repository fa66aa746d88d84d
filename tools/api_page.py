"""The page of the HTTP interface, made from the OpenAPI document."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

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
        yield f"### {name}"
        if "description" in schema:
            yield schema["description"]
        rows = list(_members(schema))
        if rows:
            yield _table(("member", "kind", "meaning"), rows)


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
        (f"`{one['name']}`", one["in"], _kind(one["schema"]), one["description"])
        for one in operation["parameters"]
    ]
    if rows:
        yield _table(("parameter", "in", "kind", "meaning"), rows)
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]
        kinds = ", ".join(f"`{media}` {_kind(said['schema'])}" for media, said in content.items())
        yield f"Body: {kinds}. {operation['requestBody'].get('description', '')}".rstrip()
    for sample in operation.get("x-codeSamples", ())[:1]:
        yield f"```sh\n{sample['source']}\n```"
    yield _table(("status", "answer"), list(_answers(operation, document)))


def _answers(operation: dict[str, Any], document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for status, answer in sorted(operation["responses"].items()):
        whole = answer
        if "$ref" in answer:
            whole = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
        text = whole["description"]
        if int(status) < 400:
            kinds = [f"`{media}` {_kind(said['schema'])}" for media, said in whole["content"].items()]
            text = " ".join([text, "; ".join(kinds)]).strip()
        yield status, text


def _members(schema: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    for part in schema.get("allOf", ()):
        if "$ref" in part:
            yield "", _kind(part), "All of its members."
        yield from _members(part, prefix)
    required = schema.get("required", ())
    for name, one in schema.get("properties", {}).items():
        optional = "" if name in required else ", optional"
        yield f"`{prefix}{name}`", _kind(one) + optional, one.get("description", "")
        yield from _members(one, f"{prefix}{name}.")


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return f"`{schema['const']}`".replace("True", "true")
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    for several in ("anyOf", "allOf"):
        if several in schema:
            return " or ".join(_kind(one) for one in schema[several])
    types = schema.get("type", "any")
    words = [_word(one, schema) for one in ([types] if isinstance(types, str) else types)]
    return " or ".join(words)


def _word(name: str, schema: dict[str, Any]) -> str:
    if name == "array":
        return f"list of {_kind(schema['items'])}"
    if name == "string":
        return {"date-time": "time", "binary": "bytes"}.get(schema.get("format", ""), "text")
    return {"integer": "whole number", "boolean": "true or false", "any": "any JSON"}.get(name, name)


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(
        "| " + " | ".join(re.sub(r"\|", "\\\\|", cell) for cell in line) + " |" for line in lines
    )
