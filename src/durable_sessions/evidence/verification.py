"""Verifies the archive of a dossier: with the public keys of a server, and without the server."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from durable_sessions.evidence import archive
from durable_sessions.evidence.archive import ArchivedFile, Keep
from durable_sessions.evidence.statement import (
    DOSSIER,
    ENVELOPE,
    EVENTS,
    NO_SUBJECTS,
    PAYLOAD_TYPE,
    PREDICATE_TYPE,
    STATEMENT,
    STATEMENT_TYPE,
    SUMS,
    enveloped,
    signed_bytes,
    sums,
)

T = TypeVar("T")

FORMAT = "durable-sessions-dossier/1"
_OUTSIDE = frozenset({"reliability"})
"""Sections that are about other families, too: their events are on the server only."""
_READ_BYTES_MAX = 256 * 1024 * 1024
_LINE_BYTES_MAX = 16 * 1024 * 1024
_STORED_ID = re.compile(rb'\{"id":"([^"\\]+)"')


class DossierInvalidError(ValueError):
    """The archive does not prove what it says; the message says why."""


@dataclass(frozen=True, slots=True)
class VerifiedDossier:
    """A dossier whose sums, subjects, signature and refs are right."""

    session: str
    kind: str
    complete: bool
    missing: Sequence[str]
    result: str
    principals: str
    keyid: str
    files: int
    events: int


class _Ref(msgspec.Struct):
    session: str
    id: str


class _Item(msgspec.Struct):
    refs: list[_Ref]


class _Section(msgspec.Struct):
    items: list[_Item]


class _Dossier(msgspec.Struct):
    format: str
    kind: str
    session: str
    complete: bool
    missing: list[str]
    questions: dict[str, list[_Ref]]
    sections: dict[str, _Section]
    principals: str

    def refs(self) -> Iterator[tuple[_Ref, bool]]:
        """Yield all refs, each with whether it may lead out of the family."""
        for answers in self.questions.values():
            yield from ((ref, False) for ref in answers)
        for name, section in self.sections.items():
            for item in section.items:
                yield from ((ref, name in _OUTSIDE) for ref in item.refs)


class _Resource(msgspec.Struct):
    name: str
    digest: dict[str, str]


class _Predicate(msgspec.Struct):
    result: str


class _Statement(msgspec.Struct):
    type: str = msgspec.field(name="_type")
    subject: list[_Resource]
    predicate_type: str = msgspec.field(name="predicateType")
    predicate: _Predicate


class _Signature(msgspec.Struct):
    keyid: str
    sig: str


class _Envelope(msgspec.Struct):
    payload: str
    payload_type: str = msgspec.field(name="payloadType")
    signatures: list[_Signature]


class _PublicKey(msgspec.Struct):
    kid: str = ""
    kty: str = ""
    crv: str = ""
    x: str = ""


class _KeySet(msgspec.Struct):
    keys: list[_PublicKey]


def public_keys(jwks: bytes) -> dict[str, bytes]:
    """Return the Ed25519 keys of a key set by their ids; refuse what is none."""
    try:
        found = msgspec.json.decode(jwks, type=_KeySet).keys
        return {
            one.kid: base64.urlsafe_b64decode(one.x + "=" * (-len(one.x) % 4))
            for one in found
            if (one.kty, one.crv) == ("OKP", "Ed25519")
        }
    except (msgspec.MsgspecError, binascii.Error, UnicodeDecodeError) as error:
        raise DossierInvalidError(f"The key set is none: {error}.") from error


def verify(path: Path, keys: Mapping[str, bytes]) -> VerifiedDossier:
    """Verify an archive with the public keys of the server that made it, or raise what is wrong with it.

    Sums and subjects must be those of the files, the signature that of the statement, and every ref of the
    dossier must lead to an event in the archive.
    """
    contents = _Contents()
    try:
        with path.open("rb") as file:
            files = archive.read(file, contents.keep)
    except archive.ArchiveDamagedError as error:
        raise DossierInvalidError(str(error)) from error
    digests = {one.name: one.sha256 for one in files}
    _require_sums(files, contents)
    said = _require_subjects(digests, contents)
    keyid = _require_signature(contents, keys)
    dossier = _decoded(contents, DOSSIER, _Dossier)
    if dossier.format != FORMAT:
        raise DossierInvalidError(f"The format of {DOSSIER} is {dossier.format[:100]}, not {FORMAT}.")
    for ref, is_outside in dossier.refs():
        # The section compares with other families of sessions, which are not part of the archive.
        if is_outside and ref.session not in contents.events:
            continue
        if ref.id not in contents.events.get(ref.session, ()):
            raise DossierInvalidError(f"{DOSSIER} names {ref.id} of {ref.session}, which is not in {EVENTS}.")
    return VerifiedDossier(
        dossier.session,
        dossier.kind,
        dossier.complete,
        dossier.missing,
        said.predicate.result,
        dossier.principals,
        keyid,
        len(files),
        sum(map(len, contents.events.values())),
    )


class _Contents:
    """Keeps the small files of an archive, and the ids of its events."""

    def __init__(self) -> None:
        self.files: dict[str, bytearray] = {}
        self.events: dict[str, set[str]] = {}

    # None means that only the digest of the file is wanted: a dossier may have artifacts of any size.
    def keep(self, name: str) -> Keep | None:
        if name.startswith(EVENTS):
            return _EventIds(
                self.events.setdefault(name.removeprefix(EVENTS).removesuffix(".jsonl"), set())
            ).add
        if name == DOSSIER or name in NO_SUBJECTS:
            return _Whole(name, self.files.setdefault(name, bytearray())).add
        return None


class _Whole:
    """Keeps a whole file."""

    def __init__(self, name: str, kept: bytearray) -> None:
        self._name = name
        self._kept = kept

    def add(self, piece: bytes) -> None:
        if len(self._kept) + len(piece) > _READ_BYTES_MAX:
            raise DossierInvalidError(f"{self._name} is larger than {_READ_BYTES_MAX:,} bytes.")
        self._kept += piece


class _EventIds:
    """Keeps the ids of events in lines."""

    def __init__(self, ids: set[str]) -> None:
        self._ids = ids
        self._rest = b""

    def add(self, piece: bytes) -> None:
        # Pieces end anywhere; the beginning of a line waits for its rest.
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > _LINE_BYTES_MAX:
            raise DossierInvalidError(f"A line in {EVENTS} is larger than {_LINE_BYTES_MAX:,} bytes.")
        for line in lines:
            # The server puts the id first into every event it stores, so that no event needs to be decoded.
            found = _STORED_ID.match(line)
            if found is None:
                raise DossierInvalidError(f"A line in {EVENTS} is no stored event.")
            self._ids.add(found[1].decode(errors="replace"))


def _require_sums(files: Sequence[ArchivedFile], contents: _Contents) -> None:
    # It must be the last file, which makes it the list of all others, and nothing can follow unlisted.
    if files[-1].name != SUMS or bytes(contents.files[SUMS]) != sums(files[:-1]):
        raise DossierInvalidError(f"{SUMS} does not have the digests of the other files.")


def _require_subjects(digests: Mapping[str, str], contents: _Contents) -> _Statement:
    said = _decoded(contents, STATEMENT, _Statement)
    if (said.type, said.predicate_type) != (STATEMENT_TYPE, PREDICATE_TYPE):
        raise DossierInvalidError(f"{STATEMENT} is not an in-toto statement about a test result.")
    named = {one.name: one.digest.get("sha256", "") for one in said.subject}
    expected = {name: digest for name, digest in digests.items() if name not in NO_SUBJECTS}
    # The lengths too: of two subjects with one name, the mapping would hide the first.
    if named != expected or len(named) != len(said.subject):
        wrong = sorted(set(named.items()) ^ set(expected.items()))
        raise DossierInvalidError(
            f"The subjects of {STATEMENT} are not the files: {wrong[0][0] if wrong else ''}."
        )
    return said


def _require_signature(contents: _Contents, keys: Mapping[str, bytes]) -> str:
    signed = _decoded(contents, ENVELOPE, _Envelope)
    payload = _base64(signed.payload)
    # The envelope contains the statement again. If they could differ, a reader of the file would trust words
    # that nobody has signed.
    if signed.payload_type != PAYLOAD_TYPE or payload != bytes(contents.files[STATEMENT]):
        raise DossierInvalidError(f"What {ENVELOPE} signs is not {STATEMENT}.")
    for one in signed.signatures:
        if one.keyid in keys:
            signature = _signature(one, keys[one.keyid], payload)
            # Nobody signs the envelope itself: other members, spaces and unused bits of base64 would pass.
            if bytes(contents.files[ENVELOPE]) != enveloped(payload, one.keyid, signature):
                raise DossierInvalidError(f"{ENVELOPE} has more than the statement and its signature.")
            return one.keyid
    named = ", ".join(one.keyid for one in signed.signatures) or "nobody"
    raise DossierInvalidError(
        f"It is signed by {named[:200]}, which is none of the keys given: "
        "take those of the server that made it."
    )


def _signature(stated: _Signature, key: bytes, payload: bytes) -> bytes:
    """Return a signature that is right."""
    signature = _base64(stated.sig)
    try:
        public = Ed25519PublicKey.from_public_bytes(key)
        public.verify(signature, signed_bytes(PAYLOAD_TYPE, payload))
    except (InvalidSignature, ValueError) as error:
        raise DossierInvalidError(f"The signature by {stated.keyid} is wrong.") from error
    return signature


def _decoded(contents: _Contents, name: str, shape: type[T]) -> T:
    if name not in contents.files:
        raise DossierInvalidError(f"There is no {name} in it.")
    try:
        return msgspec.json.decode(bytes(contents.files[name]), type=shape)
    except msgspec.MsgspecError as error:
        raise DossierInvalidError(f"{name} cannot be read: {error}.") from error


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DossierInvalidError(f"{ENVELOPE} is no base64: {error}.") from error
