"""The secret that all nodes of a cluster share, and while it is replaced, the one before, too.

Secrets are given as values, or in files that something else keeps. Keys for each purpose are made of them.
"""

from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from durable_sessions.errors import SettingsError
from durable_sessions.node.link_handshake import SECRET_BYTES_MIN
from durable_sessions.setting_values import secret
from durable_sessions.settings import Settings

_FILE_BYTES_MAX = 4096


@dataclass(frozen=True, slots=True)
class ClusterSecrets:
    """The secrets that this node takes from others; with the first one it proves and seals."""

    accepted: tuple[str, ...] = field(repr=False)

    @classmethod
    def open(cls, settings: Settings) -> "ClusterSecrets":
        """Return the secrets that the settings give or name files of; SettingsError if they are of no use."""
        current = _given(settings, "cluster_secret")
        if not current:
            raise SettingsError(
                problem=f"A node of a cluster needs the secret that all nodes share, of {SECRET_BYTES_MIN}"
                " characters or more, in DURABLE_SESSIONS_CLUSTER_SECRET (openssl rand -hex 32 makes one),"
                " or in a file that cluster_secret_file names."
            )
        previous = _given(settings, "cluster_secret_previous")
        return cls((current, previous) if previous not in ("", current) else (current,))

    def keys(self, label: str) -> tuple[bytes, ...]:
        """Return a key for one purpose, made of each secret."""
        return tuple(
            HKDF(SHA256(), 32, salt=None, info=f"durable-sessions {label}".encode()).derive(one.encode())
            for one in self.accepted
        )


def _given(settings: Settings, name: str) -> str:
    """Return a secret from its setting or its file, empty if neither is given."""
    value, file = getattr(settings, name), getattr(settings, f"{name}_file")
    if value and file:
        raise SettingsError(problem=f"{name} and {name}_file are both given: keep one of them.")
    if file:
        value = _read(f"{name}_file", Path(file))
    elif not value:
        return ""
    if len(value) < SECRET_BYTES_MIN:
        raise SettingsError(
            problem=f"A node of a cluster needs the secret that all nodes share, of {SECRET_BYTES_MIN}"
            f" characters or more: {name} has {len(value)}."
        )
    return str(value)


def _read(name: str, file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(_FILE_BYTES_MAX)
    except OSError as error:
        raise SettingsError(
            problem=f"{name} is {file}, which cannot be read: {error.strerror or error}."
        ) from error
    try:
        return secret(content.decode("ascii").strip())
    except ValueError:
        problem = f"{name} is {file}, which has more in it than one secret of printable ASCII."
        raise SettingsError(problem=problem) from None
