"""Makes the streams in NATS that hold the logs of a cluster."""

import asyncio
from typing import Any

import msgspec

from durable_sessions.bucket.cluster_description import ClusterDescription
from durable_sessions.errors import LogError
from durable_sessions.log.nats.stream import stream_configuration, stream_name
from durable_sessions.log.nats.wire import NatsWire
from durable_sessions.partition_id import PartitionId

_CALL_SECONDS_MAX = 10.0
_TRIES_MAX = 5
_NO_STREAM = 10059


async def make_stream(
    wire: NatsWire, cluster: ClusterDescription, partition: PartitionId, bucket: str
) -> None:
    """Make the stream of a partition, unless it is there already; LogError if NATS does not."""
    name = stream_name(cluster.name, partition.generation, partition.digits)
    wanted = stream_configuration(
        name, cluster.lineage, bytes_max=cluster.log_bytes_max, replicas=cluster.replicas, bucket=bucket
    )
    answer: dict[str, Any] = {}
    for _ in range(_TRIES_MAX):
        subject = f"$JS.API.STREAM.CREATE.{name}"
        try:
            reply = await wire.request(subject, msgspec.json.encode(wanted), _CALL_SECONDS_MAX)
            answer = msgspec.json.decode(reply.data)
        except (TimeoutError, msgspec.DecodeError) as error:
            answer = {"error": {"description": f"no answer ({error})", "code": 503}}
        if "error" not in answer or answer["error"].get("code") != 503:
            break
        await asyncio.sleep(1)
    if "error" in answer:
        reason = f"NATS does not make the stream {name}: {answer['error'].get('description')}"
        raise LogError(reason=reason)


async def has_stream(wire: NatsWire, name: str) -> bool:
    """Say whether NATS has a stream; LogError if it does not answer."""
    try:
        reply = await wire.request(f"$JS.API.STREAM.INFO.{name}", b"", _CALL_SECONDS_MAX)
        answer = msgspec.json.decode(reply.data)
    except (TimeoutError, msgspec.DecodeError) as error:
        raise LogError(reason=f"NATS does not say whether it has the stream {name}: {error}") from error
    if "error" not in answer:
        return True
    if answer["error"].get("err_code") == _NO_STREAM:
        return False
    reason = f"NATS does not say whether it has the stream {name}: {answer['error'].get('description')}"
    raise LogError(reason=reason)
