"""The configuration of a JetStream stream that holds the log of one partition.

Every setting here keeps acknowledged frames from getting lost, or lets them be read; a stream with another
value is refused.
"""

from typing import Any

from durable_sessions.errors import LogMisconfiguredError

REPLICAS = 3
DUPLICATE_WINDOW_NS = 100_000_000
LINEAGE, BUCKET, BEGINS = "durable-sessions-lineage", "durable-sessions-bucket", "durable-sessions-begins"
_UNBOUNDED = {"max_age": 0, "max_msgs": -1, "max_msgs_per_subject": -1}
_ABSENT = {
    "sealed": False,
    "no_ack": False,
    "allow_rollup_hdrs": False,
    "allow_msg_ttl": False,
    "persist_mode": "",
    "mirror": None,
    "sources": None,
    "republish": None,
    "subject_transform": None,
}
"""What a safe stream does not have, and the value that says so; servers leave most of these out."""


def stream_name(cluster: str, generation: int, partition: str) -> str:
    """Return the name of the stream of a partition, which is also its subject."""
    return f"DS_{cluster}_{generation}_{partition}"


def stream_configuration(
    name: str,
    lineage: str,
    *,
    bytes_max: int,
    begins_after: int = 0,
    replicas: int = REPLICAS,
    bucket: str = "",
) -> dict[str, Any]:
    """Return the configuration of a new stream."""
    return {
        "name": name,
        "subjects": [name],
        "num_replicas": replicas,
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "max_bytes": bytes_max,
        "deny_delete": True,
        "allow_direct": True,
        "duplicate_window": DUPLICATE_WINDOW_NS,
        "first_seq": begins_after + 1,
        "metadata": {LINEAGE: lineage, BUCKET: bucket, BEGINS: str(begins_after)},
        **_UNBOUNDED,
    }


def require_safe(found: dict[str, Any], location: str, name: str, lineage: str, replicas: int) -> None:
    """Refuse a stream whose configuration can lose frames, or that was made for another log."""
    metadata = found.get("metadata") or {}
    if metadata.get(LINEAGE) != lineage:
        problem = (
            f"it is the stream of {metadata.get(LINEAGE) or 'no log'}, not of {lineage}: it was made anew"
        )
        raise LogMisconfiguredError(log=location, problem=problem)
    wanted: dict[str, object] = {
        "subjects": [name],
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "deny_delete": True,
        "allow_direct": True,
        **_UNBOUNDED,
    }
    wrong = {key: found.get(key) for key, value in wanted.items() if found.get(key) != value}
    wrong |= {
        key: found[key]
        for key, value in _ABSENT.items()
        if found.get(key) not in (None, value, [], {})
        and not (key == "persist_mode" and found[key] == "default")
    }
    if found.get("num_replicas", 1) < replicas:
        wrong["num_replicas"] = found.get("num_replicas", 1)
    if wrong:
        expected = {key: wanted.get(key, _ABSENT.get(key, replicas)) for key in wrong}
        raise LogMisconfiguredError(log=location, problem=f"the stream has {wrong} instead of {expected}")
