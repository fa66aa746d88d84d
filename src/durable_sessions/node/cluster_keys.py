"""The signing keys of a cluster: one object in the bucket, sealed with the secret that all nodes share.

Every node signs alike, so webhooks and dossiers of one node are verified with the key set of any other.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from durable_sessions.bucket.cluster_description import LEVEL
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.errors import ObjectExistsError, ObjectNotFoundError, SettingsError
from durable_sessions.http.api.signing import SigningKeys

OBJECT = "cluster/signing-keys"
FILE = "signing-keys.json"
_NONCE_BYTES = 12
_TWO_SECRETS_SINCE = 2
"""The format level since which the keys may be sealed with two secrets."""


class _SealedCopies(msgspec.Struct):
    """The signing keys, sealed with each of two secrets: so they are stored while the secret is replaced."""

    sealed: list[bytes]


async def share_signing_keys(
    bucket: ObjectStore, keys: Sequence[bytes], data: Path, level: int = LEVEL
) -> None:
    """Write the cluster's signing keys to the data directory; the first node gives them to the cluster.

    ``keys`` are made of the secrets of the cluster; any opens them, and afterwards those of this node do.
    ``level`` is the format level of the cluster.
    """
    if len(keys) > 1 and level < _TWO_SECRETS_SINCE:
        problem = (
            "cluster_secret_previous is given, but nodes of an older version may run, which could not open"
            f" what is sealed with two secrets: the cluster is at format level {level}. When all nodes are"
            " upgraded, run ds cluster upgrade --finalize, and then replace the secret."
        )
        raise SettingsError(problem=problem)
    path = data / FILE
    try:
        stored = await bucket.get(OBJECT)
    except ObjectNotFoundError:
        await asyncio.to_thread(SigningKeys.open, path)
        own = await asyncio.to_thread(path.read_bytes)
        try:
            await bucket.create(OBJECT, _sealed(own, keys))
            return
        except ObjectExistsError:
            stored = await bucket.get(OBJECT)
    copies = _copies(stored)
    content = _opened(copies, keys)
    if content is None:
        problem = (
            "the cluster secret is not the one that the other nodes have: it does not open their signing keys"
        )
        raise SettingsError(problem=problem)
    # A new secret is added before a node has only that one; a node that has only one removes all others.
    if len(copies) > len(keys) or _opened(copies, keys[:1]) is None:
        await bucket.put(OBJECT, _sealed(content, keys))
    await asyncio.to_thread(_write, path, content)


def _sealed(content: bytes, keys: Sequence[bytes]) -> bytes:
    copies = []
    for key in keys:
        nonce = os.urandom(_NONCE_BYTES)
        copies.append(nonce + AESGCM(key).encrypt(nonce, content, None))
    return copies[0] if len(copies) == 1 else msgspec.json.encode(_SealedCopies(copies))


def _copies(stored: bytes) -> list[bytes]:
    try:
        return msgspec.json.decode(stored, type=_SealedCopies).sealed
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return [stored]


def _opened(copies: Sequence[bytes], keys: Sequence[bytes]) -> bytes | None:
    """Return what is sealed; None if none of the keys opens any copy."""
    for key in keys:
        for copy in copies:
            try:
                return AESGCM(key).decrypt(copy[:_NONCE_BYTES], copy[_NONCE_BYTES:], None)
            except InvalidTag:
                continue
    return None


def _write(path: Path, content: bytes) -> None:
    if path.exists() and path.read_bytes() == content:
        return
    partial = path.with_suffix(".partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    partial.replace(path)
