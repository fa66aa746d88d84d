"""The opening of a link: both sides agree on a version and prove that they have the secret.

The asking side sends HELLO, the owner HELLO, then each its PROOF: an HMAC over both greetings. The owner
proves itself last, so that a stranger learns nothing from it, not even whether a secret was nearly right.
While a secret is replaced each side may have two: the asker proves both, the owner one that both have.
"""

import hmac
from collections.abc import Sequence
from secrets import token_bytes
from struct import Struct
from typing import Final

from durable_sessions.node.link_frames import LinkProtocolError

VERSION: Final = 3
"""What this program speaks; each version also speaks the one before."""
OLDEST_VERSION: Final = 1
SECRET_BYTES_MIN: Final = 32

_MAGIC = b"DSLK"
_GREETING = Struct("<4sHH32s")
_NONCE_BYTES = 32
_PROOF_BYTES = 32
_PROOFS_MAX = 2
_SEVERAL_SINCE = 3
"""The version in which the asking side may prove several secrets."""
_ASKER, _OWNER = b"durable-sessions link asker", b"durable-sessions link owner"


class LinkRefusedError(Exception):
    """The peer speaks another version, or does not have the secret."""


class Handshake:
    """One side of an opening; messages are bytes, and nothing here waits.

    Any of ``secrets`` will do; a peer that knows one only is shown the first.
    """

    def __init__(self, *secrets: bytes) -> None:
        if not secrets or any(len(one) < SECRET_BYTES_MIN for one in secrets):
            raise ValueError(f"the secret of a link needs at least {SECRET_BYTES_MIN} bytes")
        self._secrets = secrets
        self._greetings = b""
        self.version = 0

    def greet(self) -> bytes:
        """Return the greeting of the asking side."""
        greeting = _GREETING.pack(_MAGIC, OLDEST_VERSION, VERSION, token_bytes(_NONCE_BYTES))
        self._greetings += greeting
        return greeting

    def greet_back(self, greeting: bytes) -> bytes:
        """Return the owner's greeting, with the version chosen; it is 0 if there is none in common."""
        oldest, newest = _parse(greeting)
        self.version = min(newest, VERSION) if oldest <= VERSION and newest >= OLDEST_VERSION else 0
        answer = _GREETING.pack(_MAGIC, self.version, VERSION, token_bytes(_NONCE_BYTES))
        self._greetings = greeting + answer
        return answer

    def greeted(self, answer: bytes) -> None:
        """Take the owner's greeting, or raise if it speaks no version of ours."""
        self.version, newest = _parse(answer)
        if not OLDEST_VERSION <= self.version <= VERSION:
            raise LinkRefusedError(
                f"it speaks up to version {newest} of the link protocol, this program "
                f"{OLDEST_VERSION} to {VERSION}"
            )
        self._greetings += answer

    def asker_proof(self) -> bytes:
        """Return the proof of the asking side."""
        secrets = self._secrets if self.version >= _SEVERAL_SINCE else self._secrets[:1]
        return b"".join(self._proof(_ASKER, one) for one in secrets)

    def owner_proof(self) -> bytes:
        """Return the proof of the owner, once it has checked that of the asking side."""
        return self._proof(_OWNER, self._secrets[0])

    def check_asker(self, proof: bytes) -> None:
        """Raise if the asking side has none of the secrets; what it has is what the owner proves."""
        shown = [proof[begin : begin + _PROOF_BYTES] for begin in range(0, len(proof), _PROOF_BYTES)]
        self._secrets = (self._matching(_ASKER, shown[:_PROOFS_MAX]),)

    def check_owner(self, proof: bytes) -> None:
        """Raise if the owner has none of the secrets."""
        self._matching(_OWNER, [proof])

    def _proof(self, side: bytes, secret: bytes) -> bytes:
        return hmac.digest(secret, side + self._greetings, "sha256")

    def _matching(self, side: bytes, proofs: Sequence[bytes]) -> bytes:
        """Return the secret that one of these proofs is made with."""
        for secret in self._secrets:
            wanted = self._proof(side, secret)
            if any(hmac.compare_digest(wanted, proof) for proof in proofs):
                return secret
        raise LinkRefusedError("it does not have the secret of this server")


def _parse(greeting: bytes) -> tuple[int, int]:
    if len(greeting) != _GREETING.size:
        raise LinkProtocolError("a greeting has another size")
    magic, oldest, newest, _ = _GREETING.unpack(greeting)
    if magic != _MAGIC:
        raise LinkProtocolError("the peer does not speak the link protocol")
    return oldest, newest
