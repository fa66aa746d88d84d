"""Artifacts: bytes that are named by their SHA-256."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2

from durable_sessions.client.call import ApiCall
from durable_sessions.client.calls import json_of, nothing
from durable_sessions.client.errors import DigestMismatchError
from durable_sessions.client.resumable import ResumableTransfer
from durable_sessions.client.retry import Attempts

_DIGEST = re.compile(r"[0-9a-f]{64}")
_MEDIA_TYPE = re.compile(r"[!-~]([ -~]*[!-~])?")
_PARTIAL = 206
PIECE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Artifact:
    """A stored artifact; events refer to it by ``path``."""

    sha256: str
    size: int
    media_type: str

    @property
    def path(self) -> str:
        """The path of the artifact on the server."""
        return artifact_path(self.sha256)


def artifact_path(sha256: str) -> str:
    """Return the path of an artifact."""
    if not _DIGEST.fullmatch(sha256):
        raise ValueError("An artifact is named by its SHA-256, 64 lower-case hex digits.")
    return f"/v1/artifacts/{sha256}"


def put(data: bytes | Path, media_type: str) -> ApiCall[Artifact]:
    """Store bytes, or a file, which must not change while it is read."""
    if isinstance(data, str):  # type: ignore[unreachable]  # not every caller is type-checked
        raise TypeError("Give bytes, or the Path of a file; a str could be either.")
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise ValueError(f"{media_type!r} is no media type; give one such as text/plain.")
    headers = {"Content-Type": media_type}
    if isinstance(data, Path):
        # The digest is the name, so the file is read twice: a large one is never in memory as a whole.
        digest, size = file_digest(data)
        headers["Content-Length"] = str(size)
        return ApiCall("PUT", artifact_path(digest), _stored, headers=headers, file=data)
    digest = hashlib.sha256(data).hexdigest()
    return ApiCall("PUT", artifact_path(digest), _stored, headers=headers, content=data)


def exists(sha256: str) -> ApiCall[None]:
    """Ask whether there is an artifact; 404 if there is none."""
    return ApiCall("HEAD", artifact_path(sha256), nothing)


def delete(sha256: str) -> ApiCall[None]:
    """Remove an artifact; nothing happens if it is not there."""
    return ApiCall("DELETE", artifact_path(sha256), nothing)


class Download(ResumableTransfer[bytes]):
    """The download of an artifact, resumed with a range request after a lost connection."""

    def __init__(self, sha256: str, attempts: Attempts) -> None:
        super().__init__(attempts)
        self._sha256 = sha256
        self._received = 0
        self._repeated = 0
        self._digest = hashlib.sha256()
        self.complete = False

    def connect(self) -> ApiCall[None]:
        """Return the request for the bytes that have not been received yet."""
        headers = {"Accept-Encoding": "identity"}  # ranges and the digest count the bytes as they are stored
        if self._received:
            headers["Range"] = f"bytes={self._received}-"
        return ApiCall("GET", artifact_path(self._sha256), nothing, headers=headers)

    def connected(self, answer: httpx2.Response) -> None:
        """Note how much of the body is known already: some proxies ignore ranges and send all of it."""
        self._repeated = 0 if answer.status_code == _PARTIAL else self._received

    def take(self, piece: bytes) -> tuple[bytes]:
        """Return what is new of the piece, and count it as received."""
        known = min(self._repeated, len(piece))
        self._repeated -= known
        piece = piece[known:]
        self._received += len(piece)
        self._digest.update(piece)
        self._attempts.succeeded()
        return (piece,)

    def ended(self) -> float:
        """Raise if the bytes do not have the digest that was asked for."""
        found = self._digest.hexdigest()
        if found != self._sha256:
            raise DigestMismatchError(self._sha256, found)
        self.complete = True
        return 0.0


def file_pieces(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file."""
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def file_digest(path: Path) -> tuple[str, int]:
    """Return the SHA-256 and the size of a file, read piece by piece."""
    digest, size = hashlib.sha256(), 0
    for piece in file_pieces(path):
        digest.update(piece)
        size += len(piece)
    return digest.hexdigest(), size


def _stored(answer: httpx2.Response) -> Artifact:
    said = json_of(answer)
    return Artifact(said["sha256"], said["bytes"], said["content_type"])
