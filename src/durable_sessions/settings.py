"""Settings: one table for the command line, the environment and the TOML file.

Precedence: command line, then ``DURABLE_SESSIONS_…`` variables, then the file, then the
default. An unknown name is refused, and the nearest known one is named.
"""

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from durable_sessions.errors import SettingsError
from durable_sessions.limits import DEFAULT_LIMITS, Limits

ENVIRONMENT_PREFIX = "DURABLE_SESSIONS_"
# Variables of the client commands and of the command line itself, not of the server.
_OTHER_VARIABLES = frozenset({"CONFIG", "URL"})
WORKSPACE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
"""Names that are safe in object paths of every store, also where case is ignored; none is empty."""
_BYTES = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)?")
_IDLE_DAYS_MAX = 36_600
_UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def _setting(default: Any, help_text: str, *, file_only: bool = False, secret: bool = False) -> Any:
    """Return a field; a secret has no option, since command lines are seen by others, and is never shown."""
    metadata = {"help": help_text, "file_only": file_only, "secret": secret}
    return field(default=default, metadata=metadata, repr=not secret)


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """What happens to the streams whose path begins with ``prefix``; one of the three is set.

    ``idle_days``: they are removed when nobody has used them for so long. ``keep``: not for that
    reason. ``hold``: nothing removes them, a legal hold.
    """

    prefix: str
    idle_days: float | None = None
    keep: bool = False
    hold: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything an operator can set."""

    host: str = _setting("127.0.0.1", "Address to listen on.")
    port: int = _setting(4437, "Port to listen on; 0 takes a free one.")
    data: Path = _setting(Path("data"), "Directory that holds the log and the keys; created if missing.")
    bucket: str = _setting(
        "",
        "Where flushed data goes: a directory, s3://name/prefix, gs://… or az://…; if empty, data/bucket.",
    )
    flush_bytes: int = _setting(DEFAULT_LIMITS.flush_bytes_max, "Flush when this much waits in the log.")
    flush_seconds: float = _setting(60.0, "Flush when something has waited in the log for this long.")
    unflushed_bytes: int = _setting(
        DEFAULT_LIMITS.unflushed_bytes_max, "Refuse appends when this much waits because the bucket is away."
    )
    low_space_bytes: int = _setting(
        0, "Pause search indexing when the disk has less space left; 0: 1 % of the disk, 256 MiB at most."
    )
    long_poll_seconds: float = _setting(20.0, "How long a long-poll waits for new data.")
    memory_bytes: int = _setting(
        DEFAULT_LIMITS.memory_bytes_max,
        "Memory for recent records, such as 256MiB; older ones are read from disk.",
    )
    connections: int = _setting(DEFAULT_LIMITS.connections_max, "Most connections open at the same time.")
    public_url: str = _setting(
        "",
        "URL under which clients reach the server, if not http:// and the Host header (behind a TLS proxy).",
    )
    allowed_hosts: tuple[str, ...] = _setting(
        (),
        "Names besides 127.0.0.1, localhost and [::1] that a server without keys answers to, by comma.",
    )
    allowed_origins: tuple[str, ...] = _setting(
        (),
        "Origins of web pages, such as https://chat.example, that may use the server like its own, by comma.",
    )
    webhook_private_addresses: bool = _setting(
        False,
        "Whether webhooks may go to private and loopback addresses: true or false. Without keys, loopback is "
        "allowed anyway.",
    )
    api_key: str = _setting(
        "",
        "A key that is admin of the workspace, for containers; kept in memory only. See keys.md.",
        secret=True,
    )
    workspace: str = _setting(
        "default",
        "Workspace that is served without keys, and that of api_key; its admins are the operators.",
    )
    workspace_streams: int = _setting(0, "Most streams in one workspace; 0 is no limit.")
    workspace_bytes: int = _setting(
        0, "Most bytes of records and artifacts in one workspace, such as 10GiB; 0 is no limit."
    )
    artifact_bytes: int = _setting(DEFAULT_LIMITS.artifact_bytes_max, "The largest artifact, such as 64MiB.")
    body_bytes: int = _setting(
        DEFAULT_LIMITS.append_body_bytes_max, "The largest body of a request, such as 8MiB."
    )
    event_bytes: int = _setting(DEFAULT_LIMITS.event_bytes_max, "The largest event of a session.")
    events_per_request: int = _setting(
        DEFAULT_LIMITS.events_per_request_max, "Most events that one request may append to a session."
    )
    log_level: str = _setting("info", "Least severe log line to print: debug, info, warning or error.")
    log_format: str = _setting("auto", "Log lines as json or console; auto is console on a terminal.")
    retention: tuple[RetentionPolicy, ...] = _setting(
        (), "Which streams are removed when idle, kept or held; see Retention in running.md.", file_only=True
    )

    def limits(self) -> Limits:
        """Return the server's limits with what was set here."""
        return Limits(
            memory_bytes_max=self.memory_bytes,
            connections_max=self.connections,
            flush_bytes_max=self.flush_bytes,
            unflushed_bytes_max=self.unflushed_bytes,
            append_body_bytes_max=self.body_bytes,
            event_bytes_max=self.event_bytes,
            events_per_request_max=self.events_per_request,
            pending_bytes_max=max(DEFAULT_LIMITS.pending_bytes_max, 4 * self.body_bytes),
            request_bytes_max=max(DEFAULT_LIMITS.request_bytes_max, 4 * self.body_bytes),
            parsing_bytes_max=max(DEFAULT_LIMITS.parsing_bytes_max, 4 * self.body_bytes),
            artifact_bytes_max=self.artifact_bytes,
            incomplete_artifact_bytes_max=max(
                DEFAULT_LIMITS.incomplete_artifact_bytes_max, 2 * self.artifact_bytes
            ),
            artifact_memory_bytes_max=max(DEFAULT_LIMITS.artifact_memory_bytes_max, 2 * self.artifact_bytes),
        )


def names() -> list[str]:
    """Return every setting's name."""
    return [item.name for item in fields(Settings)]


def variable_names() -> list[str]:
    """Return the names of the settings that have an option and a variable too."""
    return [item.name for item in fields(Settings) if not item.metadata["file_only"]]


def load(options: Mapping[str, object], environment: Mapping[str, str], file: Path | None) -> Settings:
    """Return the settings, or say which value is wrong and what to write instead."""
    values: dict[str, Any] = {}
    for source, given in (
        (str(file), _read_file(file)),
        ("the environment", _read_environment(environment)),
        ("the command line", {name: value for name, value in options.items() if value is not None}),
    ):
        for name, value in given.items():
            values[name] = _checked(name, value, source)
    return Settings(**values)


def _read_file(file: Path | None) -> dict[str, object]:
    if file is None:
        return {}
    try:
        found = tomllib.loads(file.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(problem=f"{file} cannot be read: {error}") from error
    for name in found:
        if name not in names():
            raise SettingsError(problem=f"{file} sets {name!r}, which is unknown.{_nearest(name, names())}")
    return found


def _read_environment(environment: Mapping[str, str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for variable, value in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        short = variable.removeprefix(ENVIRONMENT_PREFIX)
        if short.lower() in variable_names() and short.isupper():
            found[short.lower()] = value
        elif short not in _OTHER_VARIABLES:
            known = [ENVIRONMENT_PREFIX + name.upper() for name in variable_names()]
            raise SettingsError(problem=f"The variable {variable} is unknown.{_nearest(variable, known)}")
    return found


def _nearest(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.0)
    return f" Did you mean {close[0]!r}?"


def _checked(name: str, value: object, source: str) -> object:
    """Return a value in the setting's type and range; strings come from the environment."""
    try:
        return _CHECKS[name](value)
    except (TypeError, ValueError) as error:
        shown = name if name in _SECRETS else f"{name} = {value!r}"
        raise SettingsError(problem=f"{shown} in {source} is not usable: {error}") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("write text")
    return value


def _secret(value: object) -> str:
    text = _text(value)
    if not all("!" <= character <= "~" for character in text):
        raise ValueError("write printable ASCII without spaces")
    return text


def _workspace(value: object) -> str:
    name = _text(value)
    if not WORKSPACE_NAME.fullmatch(name):
        raise ValueError(
            "write 1 to 63 of a-z, 0-9, dot, hyphen and underscore, beginning with a letter or digit"
        )
    return name


def _number(lowest: float, highest: float, unit: str) -> Any:
    def check(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise TypeError("write a number")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not lowest <= number <= highest:
            raise ValueError(f"write a number from {lowest:g} to {highest:g}{unit}")
        return number

    return check


def _whole_number(lowest: int, highest: int) -> Any:
    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise TypeError("write a whole number")
        try:
            number = int(value)
        except ValueError:
            number = lowest - 1
        if not lowest <= number <= highest:
            raise ValueError(f"write a whole number from {lowest} to {highest}")
        return number

    return check


def _bytes(value: object) -> int:
    match = _BYTES.fullmatch(str(value).strip())
    if match is None or isinstance(value, bool):
        raise ValueError("write a size such as 256MiB")
    return int(match[1]) * _UNITS[match[2] or ""]


def _choice(*choices: str) -> Any:
    def check(value: object) -> str:
        if value not in choices:
            near = get_close_matches(str(value), choices, n=1, cutoff=0.5)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"write one of {', '.join(choices)}{meant}")
        return str(value)

    return check


def _public_url(value: object) -> str:
    url = _text(value).rstrip("/")
    if url and not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", url):
        raise ValueError("write a URL such as https://sessions.example.com")
    return url


def _flag(value: object) -> bool:
    found = value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).lower())
    if found is None:
        raise ValueError("write true or false")
    return found


def _list(check: Any) -> Any:
    def check_all(value: object) -> tuple[str, ...]:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, list | tuple):
            raise TypeError("write a list of texts")
        return tuple(check(_text(item).strip()) for item in items if item != "")

    return check_all


def _host_name(value: str) -> str:
    if not re.fullmatch(r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+", value):
        raise ValueError("write names or addresses without a port, such as sessions.test")
    return value.lower()


def _origin(value: str) -> str:
    found = re.fullmatch(r"([a-z][a-z0-9+.-]*)://([^\s/?#@*,]+?)(:[0-9]+)?/?", value.lower())
    if found is None:
        raise ValueError("write origins such as https://chat.example or http://localhost:3000")
    scheme, host, port = found[1], found[2], found[3] or ""
    return f"{scheme}://{host}" + ("" if (scheme, port) in (("http", ":80"), ("https", ":443")) else port)


def _retention(value: object) -> tuple[RetentionPolicy, ...]:
    if not isinstance(value, list) or not all(isinstance(table, dict) for table in value):
        raise TypeError("write [[retention]] tables")
    policies = tuple(_policy(table) for table in value)
    prefixes = [policy.prefix for policy in policies]
    for prefix in prefixes:
        if prefixes.count(prefix) > 1:
            raise ValueError(f"write one table for the prefix {prefix!r}")
    return policies


def _policy(table: dict[str, object]) -> RetentionPolicy:
    known = [item.name for item in fields(RetentionPolicy)]
    for name in table:
        if name not in known:
            raise ValueError(f"{name!r} is unknown.{_nearest(name, known)}")
    prefix = table.get("prefix")
    if not isinstance(prefix, str) or prefix.startswith("/"):
        raise ValueError('write prefix = "…", how paths begin, without a slash in front')
    chosen = [name for name in known if name != "prefix" and name in table]
    if len(chosen) != 1:
        raise ValueError(f"write one of idle_days, keep and hold for the prefix {prefix!r}")
    if chosen == ["idle_days"]:
        days = table["idle_days"]
        if isinstance(days, bool) or not isinstance(days, int | float) or not 0 < days <= _IDLE_DAYS_MAX:
            raise ValueError(f"write idle_days above 0, up to {_IDLE_DAYS_MAX}")
        return RetentionPolicy(prefix, idle_days=float(days))
    if table[chosen[0]] is not True:
        raise ValueError(f"write {chosen[0]} = true, or leave the table out")
    return RetentionPolicy(prefix, keep="keep" in table, hold="hold" in table)


_SECRETS = frozenset(item.name for item in fields(Settings) if item.metadata["secret"])
_CHECKS: dict[str, Any] = {
    "host": _text,
    "port": _whole_number(0, 65535),
    "data": lambda value: value if isinstance(value, Path) else Path(_text(value)),
    "bucket": _text,
    "flush_bytes": _bytes,
    "flush_seconds": _number(0.1, 86_400, " seconds"),
    "unflushed_bytes": _bytes,
    "low_space_bytes": _bytes,
    "long_poll_seconds": _number(0.1, 300, " seconds"),
    "memory_bytes": _bytes,
    "connections": _whole_number(1, 1_000_000),
    "public_url": _public_url,
    "webhook_private_addresses": _flag,
    "allowed_hosts": _list(_host_name),
    "allowed_origins": _list(_origin),
    "api_key": _secret,
    "workspace": _workspace,
    "workspace_streams": _whole_number(0, 10**12),
    "workspace_bytes": _bytes,
    "artifact_bytes": _bytes,
    "body_bytes": _bytes,
    "event_bytes": _bytes,
    "events_per_request": _whole_number(1, DEFAULT_LIMITS.append_messages_max),
    "log_level": _choice("debug", "info", "warning", "error"),
    "log_format": _choice("auto", "json", "console"),
    "retention": _retention,
}
