"""The files of the page: scripts, styles and pictures, as they are in the package.

Their path holds a digest of all of them. So a browser keeps them for ever, and a new version has a new path.
"""

import gzip
import hashlib
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from durable_sessions.http.carrier.message import Header, Request, Response

ROOT = "/ui/"
_TYPES = {
    "js": b"text/javascript; charset=utf-8",
    "mjs": b"text/javascript; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "svg": b"image/svg+xml",
    "txt": b"text/plain; charset=utf-8",
    "json": b"application/json",
}
_KEPT: list[Header] = [
    (b"Cache-Control", b"public, max-age=31536000, immutable"),
    (b"Vary", b"Accept-Encoding"),
]


class Asset(NamedTuple):
    """A file: what it is, and its bytes, also compressed."""

    media_type: bytes
    data: bytes
    zipped: bytes


class Assets:
    """All files of the page by their names, and the digest of all of them."""

    def __init__(self, found: dict[str, bytes]) -> None:
        self.found = {
            name: Asset(_TYPES[name.rpartition(".")[2]], data, gzip.compress(data, 9, mtime=0))
            for name, data in found.items()
        }
        whole = hashlib.sha256()
        for name, data in sorted(found.items()):
            whole.update(f"{name} {len(data)}\n".encode() + data)
        self.digest = whole.hexdigest()[:16]

    def url(self, name: str) -> str:
        """Return the path of a file."""
        assert name in self.found, name
        return f"{ROOT}{self.digest}/{name}"

    def answer(self, request: Request) -> Response | None:
        """Return a file, None if there is none at this path."""
        path = request.path.decode("latin-1").removeprefix(ROOT)
        digest, _, name = path.partition("/")
        asset = self.found.get(name)
        if asset is None or digest != self.digest:
            return None
        kind: Header = (b"Content-Type", asset.media_type)
        if b"gzip" in request.headers.get(b"accept-encoding", b""):
            return Response(200, [kind, *_KEPT, (b"Content-Encoding", b"gzip")], asset.zipped)
        return Response(200, [kind, *_KEPT], asset.data)


@lru_cache(maxsize=1)
def assets() -> Assets:
    """Return the files of the package; they are read once."""
    return Assets(dict(_walk(files("durable_sessions").joinpath("ui"), "")))


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.rpartition(".")[2] in _TYPES:
            found.append((prefix + entry.name, entry.read_bytes()))
    return found
