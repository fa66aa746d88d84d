"""The signing keys of a cluster: one object in the bucket, sealed with the secret that all nodes share.

Every node signs alike, so webhooks and dossiers of one node are verified with the key set of any other.
"""

import asyncio
import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.errors import ObjectExistsError, ObjectNotFoundError, SettingsError
from durable_sessions.http.api.signing import SigningKeys

OBJECT = "cluster/signing-keys"
FILE = "signing-keys.json"
_NONCE_BYTES = 12


def derived(secret: str, label: str) -> bytes:
    """Return a key for one purpose, made from the secret of the cluster."""
    return HKDF(SHA256(), 32, salt=None, info=f"durable-sessions {label}".encode()).derive(secret.encode())


async def share_signing_keys(bucket: ObjectStore, secret: str, data: Path) -> None:
    """Write the cluster's signing keys to the data directory; the first node gives them to the cluster."""
    path = data / FILE
    cipher = AESGCM(derived(secret, "signing keys"))
    try:
        sealed = await bucket.get(OBJECT)
    except ObjectNotFoundError:
        await asyncio.to_thread(SigningKeys.open, path)
        nonce = os.urandom(_NONCE_BYTES)
        own = nonce + cipher.encrypt(nonce, await asyncio.to_thread(path.read_bytes), None)
        try:
            await bucket.create(OBJECT, own)
            return
        except ObjectExistsError:
            sealed = await bucket.get(OBJECT)
    try:
        content = cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None)
    except InvalidTag:
        problem = (
            "the cluster secret is not the one that the other nodes have: it does not open their signing keys"
        )
        raise SettingsError(problem=problem) from None
    await asyncio.to_thread(_write, path, content)


def _write(path: Path, content: bytes) -> None:
    if path.exists() and path.read_bytes() == content:
        return
    partial = path.with_suffix(".partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    partial.replace(path)
