"""What sessions are listed by: their times, and terms: the pairs in their metadata, and the work on them."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import msgspec

from durable_sessions import lenient
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.sessions import original_times, record, summary, view
from durable_sessions.sessions.graph.control import CONTROL, MANAGED_OUTCOMES, Control
from durable_sessions.storage.indexed import IndexedStream
from durable_sessions.streams.stream import Key

MANY_PAIRS = 0
"""The term of sessions with more pairs than are indexed: every filter by metadata has to look at them."""
FORKED_FROM, ROUTED_TO, LEASE, DONE = "\0forked_from", "\0routed_to", "\0lease", "\0done"
WAITS_FOR = "\0waits_for"
"""What the work on a session is found by, as if it were metadata."""
LEASED = "leased"
"""The value of every session with a lease that was not released."""
APPROVAL = "approval"
"""The value of every session in which somebody is asked for a decision."""
_PAIRS_MAX = DEFAULT_LIMITS.indexed_pairs_max


def index_of(
    key: Key, created_ms: int, changed_ms: int, attributes: Mapping[str, bytes]
) -> IndexedStream | None:
    """Return what a stream is listed by, None if it is no session."""
    if key.folder != record.FOLDER:
        return None
    imported = original_times.of(attributes)
    updated_ms = max(changed_ms, created_ms)
    began_ms = created_ms if imported.first_ms is None else imported.first_ms
    active_ms = updated_ms if imported.last_ms is None else imported.last_ms
    said = record.of(attributes)
    terms = [*_terms(said.metadata), *_work_terms(said, attributes)]
    return IndexedStream((began_ms, updated_ms, active_ms), terms)


def term_of(key: str, value: str) -> int:
    """Return the term of a pair; others may have the same, so what is found is checked."""
    digest = blake2b(f"{key}\0{value}".encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) or 1


def _work_terms(said: record.Record, attributes: Mapping[str, bytes]) -> list[int]:
    """Return the terms of a fork, of who gets a session next, what it waits for, a lease, and an outcome."""
    terms = [] if said.forked_from is None else [term_of(FORKED_FROM, said.forked_from.session_id)]
    if view.awaits_approval(attributes):
        terms.append(term_of(WAITS_FOR, APPROVAL))
    if CONTROL not in attributes and MANAGED_OUTCOMES not in attributes:
        return terms
    control = Control(attributes, DEFAULT_LIMITS)
    core = control.core
    if core.route is not None:
        terms.append(term_of(ROUTED_TO, core.route.to))
    # Whether it is held or has expired is a matter of time; a session that has ended is in neither list.
    is_leased = core.lease is not None and not core.lease.released
    if is_leased and summary.of(attributes).status != "terminated":
        terms.append(term_of(LEASE, LEASED))
    if control.done is not None:
        terms.append(term_of(DONE, "true" if control.done else "false"))
    return terms


def value_text(raw: msgspec.Raw) -> str:
    """Return the value of a pair as filters compare it: a text as it is, anything else as JSON."""
    text = lenient.text(raw)
    return bytes(raw).decode() if text is None else text


def _terms(metadata: Mapping[str, msgspec.Raw]) -> Sequence[int]:
    if len(metadata) > _PAIRS_MAX:
        return (MANY_PAIRS,)
    return sorted({term_of(key, value_text(raw)) for key, raw in metadata.items()})
