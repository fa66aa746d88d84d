"""The description as one self-contained HTML page, which works without scripts too."""

import base64
import hashlib
import re
from functools import lru_cache
from html import escape
from importlib.resources import files
from typing import Any

from durable_sessions.http.manual.prose import inline, prose
from durable_sessions.http.manual.schema_html import kind, members
from durable_sessions.http.openapi.document import document
from durable_sessions.limits import Limits

_CSS = files(__package__).joinpath("page.css").read_text()
_JS = files(__package__).joinpath("page.js").read_text()
_QUIET = ("head", "options")
"""Methods that get no section of their own if they only accompany another method."""

SECURITY_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src "
    f"'unsafe-inline'; script-src 'sha256-{base64.b64encode(hashlib.sha256(_JS.encode()).digest()).decode()}'"
)


@lru_cache(maxsize=4)
def docs(limits: Limits, public_url: str) -> bytes:
    """Return the page; it is made once for each configuration."""
    found = document(limits, public_url)
    info = found["info"]
    sections = [_section(tag, found) for tag in found["tags"]]
    body = f"""\
<a class="skip" href="#content">To the content</a>
<div class="layout">
<nav aria-label="Contents">
<a class="brand" href="#top">{escape(info["title"])}</a>
<p class="version">{escape(info["version"])} · <a href="/docs">all pages</a> · <a
 href="/openapi.json">openapi.json</a></p>
<div class="tools needs-js"><input id="filter" type="search" placeholder="Filter (press /)"
 aria-label="Filter operations"><button id="theme" type="button"
 title="Light or dark" aria-label="Light or dark">◐</button></div>
<div class="sections">{"".join(_navigation(tag, found) for tag in found["tags"])}
<div class="group"><h2>More</h2><ul><li data-path=""><a href="#schemas">Schemas</a></li>
<li data-path=""><a href="#errors">Errors</a></li></ul></div></div>
</nav>
<main id="content">
<div class="intro" id="top"><h1>{escape(info["title"])}</h1><p class="lead">{escape(info["summary"])}</p>
{prose(info["description"])}</div>
{"".join(sections)}
{_schemas(found)}
{_errors(found)}
</main>
</div>
<script>{_JS}</script>"""
    return frame(info["title"] + ": the HTTP interface", body)


def frame(title: str, body: str) -> bytes:
    """Return a complete page with this body."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n<style>{_CSS}</style>\n</head>\n'
        f"<body>\n{body}\n</body>\n</html>\n"
    ).encode()


def _operations(tag: dict[str, Any], found: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the operations of a noun that are worth a section, as (method, path, operation)."""
    return [
        (method, path, operation)
        for path, item in found["paths"].items()
        for method, operation in item.items()
        if tag["name"] in operation["tags"] and (method not in _QUIET or "x-codeSamples" in operation)
    ]


def _navigation(tag: dict[str, Any], found: dict[str, Any]) -> str:
    entries = "".join(
        f'<li data-path="{escape(path)}"><a href="#{operation["operationId"]}"><span class="verb '
        f'{method}">{method}</span>'
        f"<span>{escape(operation['summary'])}</span></a></li>"
        for method, path, operation in _operations(tag, found)
    )
    slug = _slug(tag["name"])
    return f'<div class="group"><h2><a href="#{slug}">{escape(tag["name"])}</a></h2><ul>{entries}</ul></div>'


def _section(tag: dict[str, Any], found: dict[str, Any]) -> str:
    slug = _slug(tag["name"])
    articles = "".join(_article(*one, found) for one in _operations(tag, found))
    return (
        f'<section id="{slug}"><h2><a class="anchor" href="#{slug}">{escape(tag["name"])}</a></h2>'
        f"{prose(tag['description'])}{articles}</section>"
    )


def _article(method: str, path: str, operation: dict[str, Any], found: dict[str, Any]) -> str:
    name = operation["operationId"]
    shown_path = re.sub(r"\{(\w+)\}", r"<i>{\1}</i>", escape(path))
    also = [other for other in _QUIET if other != method and other in found["paths"][path]]
    tags = ['<span class="tag">no key</span>'] if operation.get("security") == [] else []
    if also and method == "get":
        tags.append(f'<span class="tag">also {", ".join(also).upper()}</span>')
    left = [_parameters(operation, place, title) for place, title in _PLACES]
    left += [_body(operation, found), _answers(operation, found)]
    return f"""
<article id="{name}"><h3><a class="anchor" href="#{name}">{escape(operation["summary"])}</a></h3>
<p class="line"><span class="verb {method}">{method}</span> <span class="path">{shown_path}</span>
{"".join(tags)}</p>
<div class="about">{prose(operation["description"])}</div>
<div class="columns"><div>{"".join(left)}</div><div>{_samples(operation)}</div></div></article>"""


_PLACES = (("path", "Path"), ("query", "Query"), ("header", "Headers"))


def _parameters(operation: dict[str, Any], place: str, title: str) -> str:
    rows = []
    for parameter in operation["parameters"]:
        if parameter["in"] != place:
            continue
        must = '<span class="must">required</span>' if parameter.get("required") and place != "path" else ""
        rows.append(
            f"<div><dt><code>{escape(parameter['name'])}</code><span "
            f'class="kind">{kind(parameter["schema"])}</span>'
            f"{must}</dt><dd>{prose(parameter['description'])}</dd></div>"
        )
    return f'<h4>{title}</h4><dl class="rows">{"".join(rows)}</dl>' if rows else ""


def _resolved(part: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return a part of the document, with a reference resolved."""
    while "$ref" in part:
        _, _, group, name = part["$ref"].split("/")
        part = found["components"][group][name]
    return part


def _body(operation: dict[str, Any], found: dict[str, Any]) -> str:
    body = operation.get("requestBody")
    if body is None:
        return ""
    must = '<span class="must">required</span>' if body["required"] else ""
    rows = "".join(
        f'<div><dt><code>{escape(media)}</code><span class="kind">{kind(said["schema"])}</span>{must}</dt>'
        f"<dd>{members(_resolved(said['schema'], found))}</dd></div>"
        for media, said in body["content"].items()
    )
    about = prose(body["description"]) if "description" in body else ""
    return f'<h4>Body</h4>{about}<dl class="rows">{rows}</dl>'


def _answers(operation: dict[str, Any], found: dict[str, Any]) -> str:
    good, bad = [], []
    for status, answer in sorted(operation["responses"].items()):
        whole = _resolved(answer, found)
        if int(status) < 400 or not whole["description"].startswith("`"):
            good.append(_answer(status, whole))
        else:
            bad.append(_refusal(status, whole))
    refused = (
        f'<details class="more"><summary>Refusals</summary><dl class="rows">{"".join(bad)}</dl></details>'
    )
    return f'<h4>Answers</h4><dl class="rows">{"".join(good)}</dl>{refused}'


def _answer(status: str, answer: dict[str, Any]) -> str:
    kinds = [
        f"<code>{escape(media)}</code> <span class='kind'>{kind(said['schema'])}</span>"
        for media, said in answer["content"].items()
    ]
    headers = [name for name in answer["headers"] if name != "request-id"]
    seen = f'<p class="seen">Headers: {escape(", ".join(headers))}</p>' if headers else ""
    shape = "".join(members(said["schema"]) for said in answer["content"].values())
    good = "good" if int(status) < 400 else "bad"
    return (
        f'<div><dt><span class="status {good}">{status}</span>{" ".join(kinds)}</dt>'
        f"<dd>{prose(answer['description'])}{shape}{seen}</dd></div>"
    )


def _refusal(status: str, answer: dict[str, Any]) -> str:
    codes = re.findall(r"`(\w+)`", answer["description"])
    links = " ".join(f'<a href="#error-{code}"><code>{code}</code></a>' for code in codes)
    return f'<div><dt><span class="status bad">{status}</span></dt><dd class="codes">{links}</dd></div>'


def _samples(operation: dict[str, Any]) -> str:
    samples = operation.get("x-codeSamples", ())
    return "".join(
        f'<details class="sample"{" open" if at < 2 else ""}><summary>{escape(sample["label"])}</summary>'
        f"<pre>{escape(sample['source'])}</pre></details>"
        for at, sample in enumerate(samples)
    )


def _schemas(found: dict[str, Any]) -> str:
    articles = "".join(
        f'<article id="schema-{name}"><h3><a class="anchor" href="#schema-{name}">{name}</a></h3>'
        f'<div class="about">{prose(schema.get("description", ""))}</div>{members(schema)}</article>'
        for name, schema in found["components"]["schemas"].items()
    )
    return f'<section id="schemas"><h2><a class="anchor" href="#schemas">Schemas</a></h2>{articles}</section>'


def _errors(found: dict[str, Any]) -> str:
    rows = "".join(
        f'<tr id="error-{code}"><td><code>{code}</code></td><td><span class="status '
        f'bad">{said["status"]}</span></td>'
        f"<td>{inline(said['message'])}</td></tr>"
        for code, said in found["x-errors"].items()
    )
    return (
        '<section id="errors"><h2><a class="anchor" href="#errors">Errors</a></h2><p>Codes are stable, '
        "messages may "
        "change; words in italics stand for values.</p><table><thead><tr><th>Code</th><th>Status</th>"
        "<th>Meaning</th>"
        f"</tr></thead><tbody>{rows}</tbody></table></section>"
    )


def _slug(name: str) -> str:
    return "tag-" + name.lower().replace(" ", "-")
