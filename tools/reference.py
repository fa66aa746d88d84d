"""Writes the reference pages, and the client's types of events, from the code: ``python -m tools.reference``.

A test fails when they are not current.
"""

import asyncio
import inspect
import re
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from durable_sessions import errors, limits
from durable_sessions.http.carrier.message import Request, Response
from durable_sessions.http.error_codes import STATUS_BY_CODE
from durable_sessions.http.openapi.document import document
from durable_sessions.limits import DEFAULT_LIMITS, Limits
from durable_sessions.node.node import Node
from durable_sessions.settings import ENVIRONMENT_PREFIX, Settings
from tools.api_page import NOTE, api_page
from tools.client_events import MODULE, client_module
from tools.events_page import events_page

FOLDER = Path(__file__).parents[1] / "docs" / "reference"


def pages() -> dict[str, str]:
    """Return every generated page by its file name."""
    return {
        "api.md": api_page(document(DEFAULT_LIMITS)),
        "errors.md": _errors(),
        "events.md": events_page(document(DEFAULT_LIMITS)),
        "limits.md": _limits(),
        "metrics.md": asyncio.run(_metrics()),
        "settings.md": _settings(),
    }


def _page(title: str, text: str, heads: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    table = [heads, tuple("---" for _ in heads), *rows]
    lines = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table)
    return f"{NOTE}# {title}\n\n{text}\n\n{lines}\n"


def _settings() -> str:
    def rows() -> Iterator[tuple[str, ...]]:
        for item in fields(Settings):
            flag = "" if item.metadata["secret"] else f"`--{item.name.replace('_', '-')}`"
            variable = f"`{ENVIRONMENT_PREFIX}{item.name.upper()}`"
            default = "`false`" if item.default is False else f"`{item.default}`" if item.default else "none"
            yield (
                *(("file only", "") if item.metadata["file_only"] else (flag, variable)),
                f"`{item.name}`",
                default,
                item.metadata["help"],
            )

    text = (
        "Each setting is an option of `durable-sessions serve`, an environment variable and a key of the\n"
        f"TOML file that `--config` (or `{ENVIRONMENT_PREFIX}CONFIG`) names. The option wins over the\n"
        "variable, the variable over the file; a secret has no option. An unknown key or variable is\n"
        "refused, and the nearest known one is named."
    )
    return _page("Settings", text, ("option", "variable", "key", "default", "meaning"), rows())


def _limits() -> str:
    source = inspect.getsource(Limits)
    found = re.findall(r"((?:    # .+\n)+)    (\w+):", source)
    comments = {name: " ".join(line.strip(" #") for line in text.splitlines()) for text, name in found}

    def rows() -> Iterator[tuple[str, ...]]:
        for name in limits.names():
            yield f"`{name}`", f"{getattr(DEFAULT_LIMITS, name):,}", comments[name]

    text = "Everything is bounded. The unit is the last part of a limit's name."
    return _page("Limits", text, ("limit", "default", "what it bounds"), rows())


def _errors() -> str:
    def rows() -> Iterator[tuple[str, ...]]:
        for code, status in STATUS_BY_CODE.items():
            kind = next(kind for kind in vars(errors).values() if getattr(kind, "code", None) == code)
            yield f"`{code}`", str(status), re.sub(r"\{(\w+)(!r)?\}", r"*\1*", kind.template())

    text = (
        "Errors under `/v1` have Anthropic's shape, with the code as `error.details.error_code`; those\n"
        'under `/v1/stream` and elsewhere have the body `{"error":{"code":…,"message":…}}`. Every 429 and\n'
        "503 has `Retry-After`. Codes are stable; messages may change. Words in italics stand for values.\n"
        "Under `/v1/stream/__ds/` codes are in upper case, and `invalid_ack` is spelt `INVALID_OFFSET`."
    )
    return _page("Errors", text, ("code", "status", "message"), rows())


async def _metrics() -> str:
    with tempfile.TemporaryDirectory() as folder:
        node = await Node.open(Settings(data=Path(folder)))
        answer = node.app(Request(b"GET", b"/metrics", b"", {}, b""))
        await node.close()
    assert isinstance(answer, Response)
    rendered = answer.body.decode()
    helps = dict(re.findall(r"^# HELP (\w+) (.+)$", rendered, re.MULTILINE))
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", rendered, re.MULTILINE))
    text = "`GET /metrics` answers in Prometheus' text format."
    rows = ((f"`{name}`", kinds[name], help_text) for name, help_text in helps.items())
    return _page("Metrics", text, ("metric", "type", "meaning"), rows)


def main() -> None:
    """Write all pages, and the types of events for the client."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
    MODULE.write_text(client_module())


if __name__ == "__main__":
    main()
