"""Opens the log of a cluster where its description says that it is, and the way for heartbeats beside it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from durable_sessions.bucket.cluster_description import NATS_LOG, ClusterDescription, current_cluster
from durable_sessions.bucket.layout import partition_prefix
from durable_sessions.bucket.manifest import Manifests
from durable_sessions.bucket.probe import probe
from durable_sessions.bucket.store import Bucket
from durable_sessions.cluster.channels import BucketChannel, HeartbeatChannel, NatsChannel
from durable_sessions.cluster.heartbeat import BUCKET_TIMING, NATS_TIMING, Timing
from durable_sessions.errors import LogError, SettingsError
from durable_sessions.ids import Ids
from durable_sessions.log.bucket import BucketSlots
from durable_sessions.log.nats.slots import NatsSlots
from durable_sessions.log.nats.stream import stream_name
from durable_sessions.log.nats.wire import NatsServers, NatsWire
from durable_sessions.log.shared import SharedLog, always
from durable_sessions.log.shared_frame import PAYLOAD_BYTES_MAX
from durable_sessions.log.slots import Slots
from durable_sessions.partition_id import PartitionId
from durable_sessions.settings import Settings


def nats_servers(settings: Settings) -> NatsServers:
    """Return how NATS is reached, by the settings."""

    def path(text: str) -> Path | None:
        return Path(text) if text else None

    return NatsServers(
        settings.nats,
        ca=path(settings.nats_ca),
        certificate=path(settings.nats_certificate),
        key=path(settings.nats_key),
        credentials=path(settings.nats_credentials),
        nkey=path(settings.nats_nkey),
    )


@dataclass(slots=True)
class ClusterLogs:
    """The bucket of a cluster, what it says about the cluster, and the connection to NATS if it needs one."""

    bucket: Bucket
    description: ClusterDescription
    wire: NatsWire | None
    ids: Ids

    @classmethod
    async def open(cls, settings: Settings, ids: Ids) -> "ClusterLogs":
        """Read the description from the bucket, and connect to NATS if it says so."""
        if not settings.bucket:
            raise SettingsError(
                problem="A node of a cluster needs the bucket of the cluster: give it --bucket."
            )
        bucket = await Bucket.open(settings.bucket)
        found = await current_cluster(bucket)
        if found is None:
            problem = (
                f"The bucket {settings.bucket} belongs to no cluster yet: run ds cluster init --name "
                f"{settings.cluster or 'NAME'} --bucket {settings.bucket} once."
            )
            raise SettingsError(problem=problem)
        if settings.cluster and found.name != settings.cluster:
            problem = (
                f"The bucket {settings.bucket} belongs to the cluster {found.name}, not {settings.cluster}."
            )
            raise SettingsError(problem=problem)
        wire = None
        if found.log == NATS_LOG:
            if not settings.nats:
                raise SettingsError(problem="The log of this cluster is in NATS: say where, with --nats.")
            wire = await NatsWire.connect(nats_servers(settings))
        return cls(bucket, found, wire, ids)

    @property
    def timing(self) -> Timing:
        """How fast nodes notice that one is dead: in NATS faster than in a bucket."""
        return BUCKET_TIMING if self.wire is None else NATS_TIMING

    @property
    def channel(self) -> HeartbeatChannel:
        """How heartbeats reach the other nodes."""
        if self.wire is None:
            return BucketChannel(self.bucket, self.timing.dead)
        return NatsChannel(self.wire, self.description.name)

    async def slots(self, partition: PartitionId) -> Slots:
        """Return the slots of a partition's log, looked at just now."""
        try:
            return await self._slots(partition)
        except TimeoutError as error:
            raise LogError(reason=f"the log of the cluster does not answer: {error}") from error

    async def _slots(self, partition: PartitionId) -> Slots:
        slots: Slots
        if self.wire is None:
            newest = await Manifests(self.bucket, partition).newest()
            slots = BucketSlots(
                self.bucket,
                f"{partition_prefix(partition)}/log",
                floor=0 if newest is None or newest.frame is None else newest.flushed_through,
                probe=lambda: probe(self.bucket, self.ids),
            )
        else:
            name = stream_name(self.description.name, partition.generation, partition.digits)
            replicas = self.description.replicas
            slots = NatsSlots(self.wire, name, self.description.lineage, replicas=replicas)
            await slots.require_safe()
        await slots.refresh()
        return slots

    async def log(
        self, partition: PartitionId, heard: int = 0, wanted: Callable[[], bool] = always
    ) -> SharedLog:
        """Return the log of a partition, unclaimed; ``heard`` is the last position that anybody told of.

        ``wanted`` says whether it is still to be claimed.
        """
        slots = await self.slots(partition)
        payload_bytes_max = slots.payload_bytes_max if isinstance(slots, NatsSlots) else PAYLOAD_BYTES_MAX
        return SharedLog(
            slots,
            self.description.lineage,
            partition.number,
            heard=heard,
            wanted=wanted,
            payload_bytes_max=payload_bytes_max,
            proof_seconds=self.timing.proof,
        )

    async def close(self) -> None:
        """Close the connection to NATS."""
        if self.wire is not None:
            await self.wire.close()
