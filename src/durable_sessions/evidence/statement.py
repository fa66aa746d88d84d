"""What the server states about the files of a dossier, and signs: in-toto's Statement in a DSSE envelope."""

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from durable_sessions.evidence.archive import ArchivedFile

DOSSIER, DOSSIER_TEXT, GRAPH, GRAPH_TEXT = "dossier.json", "dossier.md", "graph.json", "graph.mmd"
EVENTS, ARTIFACTS = "events/", "artifacts/"
STATEMENT, ENVELOPE, SUMS = "statement.json", "statement.dsse.json", "SHA256SUMS"
NO_SUBJECTS = frozenset({STATEMENT, ENVELOPE, SUMS})
"""The files that the statement is not about: itself, its signature, and the sums."""
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"

Sign = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class OutcomeResult:
    """How the work of a dossier ended: whether it is done and the dossier complete, and each feature.

    ``defined_in`` is the session whose events define the features, None if nobody defined any.
    """

    passed: bool
    passing: Sequence[str]
    failing: Sequence[str]
    defined_in: str | None


def statement(files: Iterable[ArchivedFile], result: OutcomeResult) -> bytes:
    """Return the statement about some files, as JSON; the same each time."""
    subjects = {one.name: one.sha256 for one in files if one.name not in NO_SUBJECTS}
    configuration = None if result.defined_in is None else f"{EVENTS}{result.defined_in}.jsonl"
    return msgspec.json.encode(
        {
            "_type": STATEMENT_TYPE,
            "subject": [_resource(name, digest) for name, digest in subjects.items()],
            "predicateType": PREDICATE_TYPE,
            "predicate": {
                "result": "PASSED" if result.passed else "FAILED",
                # Where it is defined what was tested.
                "configuration": [_resource(name, subjects[name]) for name in (configuration,) if name],
                "passedTests": list(result.passing),
                "warnedTests": [],
                "failedTests": list(result.failing),
            },
        }
    )


def envelope(payload: bytes, keyid: str, sign: Sign) -> bytes:
    """Return a statement, signed, as JSON."""
    return enveloped(payload, keyid, sign(signed_bytes(PAYLOAD_TYPE, payload)))


def enveloped(payload: bytes, keyid: str, signature: bytes) -> bytes:
    """Return a statement with its signature, as JSON: always the same bytes."""
    return msgspec.json.encode(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"keyid": keyid, "sig": base64.b64encode(signature).decode()}],
        }
    )


def signed_bytes(kind: str, payload: bytes) -> bytes:
    """Return what is signed: DSSE's encoding of type and payload, in which no two are alike."""
    return b"DSSEv1 %d %b %d %b" % (len(kind.encode()), kind.encode(), len(payload), payload)


def sums(files: Iterable[ArchivedFile]) -> bytes:
    """Return the digests of files as ``sha256sum -c`` takes them."""
    return "".join(f"{one.sha256}  {one.name}\n" for one in files).encode()


def _resource(name: str, digest: str) -> dict[str, Any]:
    return {"name": name, "digest": {"sha256": digest}}
