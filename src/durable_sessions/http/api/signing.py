"""The keys that the server signs with: webhooks, dossiers (Ed25519) and callback tokens (HMAC-SHA256).

These are not the API keys of callers. They are stored in one file that is created once, so that receivers can
cache the public key, and a wake that was sent before a restart can be answered after it.
"""

import base64
import fcntl
import hashlib
import hmac
import os
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from durable_sessions.directories import sync_directory
from durable_sessions.errors import SettingsError, TokenExpiredError, TokenInvalidError
from durable_sessions.streams.subscriptions import SubscriptionKey

_KEY_BYTES = 32
_VERSION = 1
_FORMER_NAME = "keys.json"


class _KeyFile(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    ed25519_seed: bytes
    token_secret: bytes


class SigningKeys:
    """Signs webhooks and dossiers, and issues tokens; the same file gives the same keys."""

    def __init__(self, ed25519_seed: bytes, token_secret: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(ed25519_seed)
        self._token_secret = token_secret
        x = _base64url(self._private.public_key().public_bytes_raw())
        # RFC 7638: the members that define the key, in this order and without spaces.
        thumbprint = hashlib.sha256(f'{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}'.encode()).digest()
        self.kid = "ds_" + _base64url(thumbprint)
        key = {"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": self.kid, "x": x}
        self.jwks: bytes = msgspec.json.encode({"keys": [key]})

    @classmethod
    def open(cls, path: Path) -> "SigningKeys":
        """Return the keys in the file; create it, durably, if there is none.

        A file with the name that earlier versions used, ``keys.json``, is renamed.
        """
        try:
            _take_over(path.with_name(_FORMER_NAME), path)
            content = path.read_bytes()
        except FileNotFoundError:
            content = _create(path)
        except OSError as error:
            raise SettingsError(problem=f"The signing key file {path} cannot be read: {error}.") from error
        try:
            keys = msgspec.json.decode(content, type=_KeyFile)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _damaged(path, str(error)) from error
        if keys.version != _VERSION:
            raise _damaged(path, f"its version is {keys.version}, this program reads {_VERSION}")
        if len(keys.ed25519_seed) != _KEY_BYTES or len(keys.token_secret) != _KEY_BYTES:
            raise _damaged(path, f"a key does not have {_KEY_BYTES} bytes")
        return cls(keys.ed25519_seed, keys.token_secret)

    def signature(self, body: bytes, at_seconds: int) -> str:
        """Return the ``Webhook-Signature`` of a body."""
        signature = self._private.sign(b"%d.%b" % (at_seconds, body))
        return f"t={at_seconds},kid={self.kid},ed25519={_base64url(signature)}"

    def sign(self, data: bytes) -> bytes:
        """Return the Ed25519 signature of some bytes; always the same one."""
        return self._private.sign(data)

    def issue_token(self, key: SubscriptionKey, generation: int, expires_at_seconds: int) -> str:
        """Return a bearer token for one generation of one subscription; it contains the workspace."""
        mac = self._mac(key, generation, expires_at_seconds)
        return f"{_base64url(key.workspace.encode())}.{generation}.{expires_at_seconds}.{mac}"

    def check_token(self, token: str, key: SubscriptionKey, now_seconds: int) -> int:
        """Return the generation that a token was issued for, or refuse the token."""
        try:
            workspace, first, second, mac = token.split(".")
            generation, expires_at_seconds = int(first), int(second)
        except ValueError:
            raise TokenInvalidError from None
        expected = self._mac(key, generation, expires_at_seconds)
        if not hmac.compare_digest(mac.encode(), expected.encode()):
            raise TokenInvalidError
        if workspace != _base64url(key.workspace.encode()):
            raise TokenInvalidError
        if now_seconds >= expires_at_seconds:
            raise TokenExpiredError
        return generation

    def workspace(self, token: str, subscription: str, now_seconds: int) -> str:
        """Return the workspace of the subscription that a token was issued for, or refuse the token."""
        encoded = token.partition(".")[0]
        try:
            workspace = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
        except ValueError:
            raise TokenInvalidError from None
        self.check_token(token, SubscriptionKey(workspace, subscription), now_seconds)
        return workspace

    def _mac(self, key: SubscriptionKey, generation: int, expires_at_seconds: int) -> str:
        subject = msgspec.json.encode([key.workspace, key.id, generation, expires_at_seconds])
        return _base64url(hmac.digest(self._token_secret, subject, "sha256"))


def _take_over(former: Path, path: Path) -> None:
    """Rename the file of an earlier version; durable on return."""
    if path.exists() or not former.exists():
        return  # both exist: an older version was started again and has created its own keys
    try:
        former.rename(path)
    except FileNotFoundError:
        return  # another worker has just renamed it
    sync_directory(path.parent)


def _create(path: Path) -> bytes:
    """Make the file, and return what it has then: workers that start together may all come here."""
    content = msgspec.json.encode(_KeyFile(_VERSION, os.urandom(_KEY_BYTES), os.urandom(_KEY_BYTES)))
    temporary = path.with_name(path.name + ".new")
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if path.exists():  # another worker had the lock; its keys may be in use already
                temporary.unlink(missing_ok=True)
                content = path.read_bytes()
            else:
                os.ftruncate(file, 0)  # a process that was killed may have left the half of it
                os.fchmod(file, 0o600)
                os.write(file, content)
                os.fsync(file)
                temporary.rename(path)
        finally:
            os.close(file)
        # Synced before use: if a crash lost a key in use, every token and signature would become invalid.
        sync_directory(path.parent)
    except OSError as error:
        raise SettingsError(problem=f"The signing key file {path} cannot be made: {error}.") from error
    return content


def _damaged(path: Path, problem: str) -> SettingsError:
    return SettingsError(
        problem=f"The signing key file {path} is damaged: {problem}. Restore it from a copy; or remove it, "
        "and new keys are made: receivers then have to fetch the new public key."
    )


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
