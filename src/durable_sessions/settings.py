"""Settings: one table for the command line, the environment and the TOML file.

The command line wins over ``DURABLE_SESSIONS_…`` variables, these over the file, and the file over the
default. An unknown name is refused, and the nearest known one is suggested.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from durable_sessions import setting_values as values
from durable_sessions.errors import SettingsError
from durable_sessions.limits import DEFAULT_LIMITS, Limits
from durable_sessions.partition_id import PARTITIONS_MAX
from durable_sessions.retention_policy import RetentionPolicy, retention_policies
from durable_sessions.setting_values import suggestion

ENVIRONMENT_PREFIX = "DURABLE_SESSIONS_"
# Variables of the client commands and of the command line itself, not of the server.
_OTHER_VARIABLES = frozenset({"CONFIG", "URL", "PRINCIPAL", "SESSION", "EPOCH"})


def _setting(default: Any, help_text: str, *, file_only: bool = False, secret: bool = False) -> Any:
    """Return a field; a secret has no option, since command lines are seen by others, and is never shown."""
    metadata = {"help": help_text, "file_only": file_only, "secret": secret}
    return field(default=default, metadata=metadata, repr=not secret)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything an operator can set."""

    host: str = _setting("127.0.0.1", "Address to listen on.")
    port: int = _setting(4437, "Port to listen on; 0 takes a free one.")
    workers: int = _setting(
        1, "Processes that serve together, each with a part of the data; see Workers in running.md."
    )
    data: Path = _setting(Path("data"), "Directory that holds the log and the keys; created if missing.")
    bucket: str = _setting(
        "",
        "Where flushed data goes: a directory, s3://name/prefix, gs://… or az://…; if empty, data/bucket.",
    )
    flush_bytes: int = _setting(
        DEFAULT_LIMITS.flush_bytes_max, "Flush when this much waits in the log; in a cluster 8 MiB at most."
    )
    flush_seconds: float = _setting(
        60.0, "Flush when something has waited in the log for this long; in a cluster 60 at most."
    )
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
    otlp_unknown: str = _setting(
        "keep", "What becomes of OpenTelemetry that means nothing to a session: keep, as it came, or drop."
    )
    otlp_redact: bool = _setting(
        False,
        "Whether secrets in OpenTelemetry are replaced by markers before it is stored, as ds import --redact "
        "does it: true or false.",
    )
    connections: int = _setting(DEFAULT_LIMITS.connections_max, "Most connections open at the same time.")
    public_url: str = _setting(
        "",
        "URL under which clients reach the server, if not http:// and the Host header (behind a TLS proxy).",
    )
    allowed_hosts: tuple[str, ...] = _setting(
        (),
        "Names besides 127.0.0.1, localhost and [::1] that a server without keys answers to, separated by "
        "commas.",
    )
    allowed_origins: tuple[str, ...] = _setting(
        (),
        "Origins of web pages, such as https://chat.example, that may use the server like its own, separated "
        "by commas.",
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
    cluster: str = _setting(
        "",
        "Name of the cluster that this server is a node of, made with ds cluster init; see Run a cluster.",
    )
    node_name: str = _setting("", "What people call this node of a cluster; if empty, host name and port.")
    nats: tuple[str, ...] = _setting(
        (),
        "Addresses of NATS servers with the log of the cluster, such as nats://10.0.0.1:4222, separated by "
        "commas.",
    )
    nats_ca: str = _setting("", "File with the certificate authority of the NATS servers, for TLS.")
    nats_certificate: str = _setting("", "File with the certificate that this node shows to NATS.")
    nats_key: str = _setting("", "File with the key of that certificate.")
    nats_credentials: str = _setting("", "File with the credentials (.creds) that this node shows to NATS.")
    nats_nkey: str = _setting("", "File with the seed of an nkey, with which this node signs in to NATS.")
    link: str = _setting(
        "127.0.0.1:0",
        "Address where other nodes reach this one: host:port; port 0 takes a free one.",
    )
    link_ca: str = _setting(
        "", "File with the certificate authority of all nodes, for TLS between them; see Run a cluster."
    )
    link_certificate: str = _setting(
        "", "File with the certificate that this node shows to other nodes; it names the host of link."
    )
    link_key: str = _setting("", "File with the key of that certificate.")
    routing: str = _setting(
        "forward",
        "What a node does with a request for a partition of another node: forward it, or redirect the client "
        "to the public_url of that node.",
    )
    cluster_secret: str = _setting(
        "", "The secret that all nodes of a cluster share, of 32 characters or more.", secret=True
    )
    cluster_secret_file: str = _setting("", "File with the secret that all nodes of a cluster share.")
    cluster_secret_previous: str = _setting(
        "", "The secret before, which is taken, too, while it is replaced node by node.", secret=True
    )
    cluster_secret_previous_file: str = _setting("", "File with the secret before.")
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

    def address(self) -> dict[str, object]:
        """Return where a server with these settings is reached, as its log says it."""
        url = f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"
        return {
            "url": url,
            "docs": f"{url}/docs",
            "host": self.host,
            "port": self.port,
            "data": str(self.data),
        }

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


_ENVIRONMENT, _OPTIONS = "the environment", "the command line"


def variable_names() -> list[str]:
    """Return the names of the settings that have an option and a variable too."""
    return [item.name for item in fields(Settings) if not item.metadata["file_only"]]


def load(options: Mapping[str, object], environment: Mapping[str, str], file: Path | None) -> Settings:
    """Return the settings, or say which value is wrong and what to write instead."""
    found: dict[str, Any] = {}
    for source, given in (
        (str(file), _read_file(file)),
        (_ENVIRONMENT, _read_environment(environment)),
        (_OPTIONS, {name: value for name, value in options.items() if value is not None}),
    ):
        for name, value in given.items():
            found[name] = _checked(name, value, source)
    return Settings(**found)


def _read_file(file: Path | None) -> dict[str, object]:
    if file is None:
        return {}
    try:
        found = tomllib.loads(file.read_text())
    except OSError as error:
        raise SettingsError(problem=f"{file} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise SettingsError(problem=f"{file} is not a text in UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(problem=f"{file} is not TOML: {error}.") from error
    for name in found:
        if name not in names():
            raise SettingsError(problem=f"{file} sets {name!r}, which is unknown.{suggestion(name, names())}")
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
            raise SettingsError(problem=f"The variable {variable} is unknown.{suggestion(variable, known)}")
    return found


def _checked(name: str, value: object, source: str) -> object:
    """Return a value in the setting's type and range; strings come from the environment."""
    try:
        return _CHECKS[name](value)
    except (TypeError, ValueError) as error:
        raise SettingsError(problem=f"{_as_given(name, value, source)} is not usable: {error}.") from None


def _as_given(name: str, value: object, source: str) -> str:
    """Return a setting as it was written there; of a secret only its name."""
    if source == _ENVIRONMENT:
        variable = f"{ENVIRONMENT_PREFIX}{name.upper()}"
        return variable if name in _SECRETS else f"{variable}={value}"
    if source == _OPTIONS:
        return f"--{name.replace('_', '-')} {value}"
    return f"{name} in {source}" if name in _SECRETS else f"{name} = {value!r} in {source}"


_SECRETS = frozenset(item.name for item in fields(Settings) if item.metadata["secret"])
_CHECKS: dict[str, values.Check] = {
    "host": values.text,
    "port": values.whole_number_between(0, 65535),
    "workers": values.whole_number_between(1, PARTITIONS_MAX),
    "data": lambda value: value if isinstance(value, Path) else Path(values.text(value)),
    "bucket": values.text,
    "flush_bytes": values.byte_count,
    "flush_seconds": values.number_between(0.1, 86_400, " seconds"),
    "unflushed_bytes": values.byte_count,
    "low_space_bytes": values.byte_count,
    "long_poll_seconds": values.number_between(0.1, 300, " seconds"),
    "memory_bytes": values.byte_count,
    "otlp_unknown": values.one_of("keep", "drop"),
    "otlp_redact": values.flag,
    "connections": values.whole_number_between(1, 1_000_000),
    "public_url": values.public_url,
    "webhook_private_addresses": values.flag,
    "allowed_hosts": values.list_of(values.host_name),
    "allowed_origins": values.list_of(values.origin),
    "api_key": values.secret,
    "cluster": values.text,
    "node_name": values.text,
    "nats": values.list_of(values.nats_url),
    "nats_ca": values.text,
    "nats_certificate": values.text,
    "nats_key": values.text,
    "nats_credentials": values.text,
    "nats_nkey": values.text,
    "link": values.host_and_port,
    "link_ca": values.text,
    "link_certificate": values.text,
    "link_key": values.text,
    "routing": values.one_of("forward", "redirect"),
    "cluster_secret": values.secret,
    "cluster_secret_file": values.text,
    "cluster_secret_previous": values.secret,
    "cluster_secret_previous_file": values.text,
    "workspace": values.workspace,
    "workspace_streams": values.whole_number_between(0, 10**12),
    "workspace_bytes": values.byte_count,
    "artifact_bytes": values.byte_count,
    "body_bytes": values.byte_count,
    "event_bytes": values.byte_count,
    "events_per_request": values.whole_number_between(1, DEFAULT_LIMITS.append_messages_max),
    "log_level": values.one_of("debug", "info", "warning", "error"),
    "log_format": values.one_of("auto", "json", "console"),
    "retention": retention_policies,
}
