"""The examples of operations as command lines."""

import shlex
from urllib.parse import quote

import msgspec

from durable_sessions.http.openapi.parts import JSON, Call, Operation


def samples(operation: Operation, origin: str) -> list[dict[str, str]]:
    """Return the examples of an operation, for pages that show them."""
    return [
        {"lang": "Shell", "label": call.title or operation.summary, "source": curl(operation, call, origin)}
        for call in operation.calls
    ]


def curl(operation: Operation, call: Call, origin: str) -> str:
    """Return a call as a command line."""
    path = operation.path
    for parameter in operation.parameters:
        if parameter.place == "path":
            safe = "/" if parameter.name == "path" else ":@"
            path = path.replace("{" + parameter.name + "}", quote(str(parameter.example), safe=safe))
    query = "&".join(
        f"{quote(name, safe='[]')}={quote(value, safe='*')}" for name, value in call.query.items()
    )
    url = origin + path + ("?" + query if query else "")
    words = ["curl"]
    if call.query.get("live") == "sse" or path.endswith("/stream"):
        words.append("-N")
    if operation.method == "head":
        words.append("-I")
    elif operation.method != "get" and not (operation.method == "post" and call.body is not None):
        words += ["-X", operation.method.upper()]
    lines = [" ".join([*words, shlex.quote(url)])]
    headers = dict(call.headers)
    if call.body is not None:
        headers = {"Content-Type": call.media_type, **headers}
    lines += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in headers.items()]
    if call.body is not None:
        lines.append(f"--data-raw {shlex.quote(body_text(call))}")
    return " \\\n  ".join(lines)


def body_text(call: Call) -> str:
    """Return the body of a call as it is sent."""
    if call.media_type != JSON:
        return str(call.body)
    return msgspec.json.encode(call.body).decode()
