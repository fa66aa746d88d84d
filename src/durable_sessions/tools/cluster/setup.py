"""Makes a cluster of a bucket: its description, its log, and the first manifest, which ties the two.

Every step can be repeated; who runs it again after an interruption goes on where it ended. Nodes start only
on a bucket that has all of it.
"""

from dataclasses import dataclass

import msgspec

from durable_sessions.bucket.cluster_description import (
    BUCKET_LOG,
    DESCRIPTION,
    NAME,
    NATS_LOG,
    ClusterDescription,
    current_cluster,
    read_description,
)
from durable_sessions.bucket.manifest import Manifest, Manifests
from durable_sessions.bucket.partition_layout import PartitionLayout, ensure_layout, read_layout
from durable_sessions.bucket.probe import probe
from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import Clock
from durable_sessions.errors import BucketRefusedError, ObjectExistsError, SettingsError
from durable_sessions.ids import Ids
from durable_sessions.log.nats.wire import NatsWire
from durable_sessions.partition_id import PartitionId
from durable_sessions.tier.ownership import first_manifest
from durable_sessions.tools.cluster.streams import make_stream

ROOM = 1.5
"""How many times what may be unflushed fits into the stream: frames take more than appends."""


def require_name(name: str) -> None:
    """Refuse what cannot be the name of a cluster."""
    if not NAME.fullmatch(name):
        raise SettingsError(
            problem=f"{name!r} cannot be the name of a cluster: write 1 to 32 of a-z, 0-9 and hyphen."
        )


@dataclass(frozen=True, slots=True)
class ClusterSetup:
    """What a new cluster is made of; ``wire`` is None if its log is in the bucket."""

    bucket: Bucket
    wire: NatsWire | None
    clock: Clock
    ids: Ids

    async def run(
        self, name: str, unflushed_bytes_max: int, replicas: int, partitions: int
    ) -> ClusterDescription:
        """Make the cluster with this many partitions, or finish making it; return its description."""
        require_name(name)
        await probe(self.bucket, self.ids)
        description = await self._describe(name, unflushed_bytes_max, replicas)
        layout = await read_layout(self.bucket) or PartitionLayout(partitions=partitions)
        for partition in layout.all:
            if self.wire is not None:
                await make_stream(self.wire, description, partition, self.bucket.location)
            await self._tie(description, partition)
        await ensure_layout(self.bucket, layout)  # last: nodes start only on a bucket that has a layout
        return description

    def description(self, name: str, unflushed_bytes_max: int, replicas: int) -> ClusterDescription:
        """Return what a new cluster says of itself."""
        return ClusterDescription(
            name=name,
            log=BUCKET_LOG if self.wire is None else NATS_LOG,
            lineage=self.ids.token("log_"),
            replicas=replicas,
            log_bytes_max=int(ROOM * unflushed_bytes_max),
            created_at_ms=self.clock.now_ms(),
        )

    async def _describe(self, name: str, unflushed_bytes_max: int, replicas: int) -> ClusterDescription:
        found = await current_cluster(self.bucket)
        log = BUCKET_LOG if self.wire is None else NATS_LOG
        if found is None:
            if await read_layout(self.bucket) is not None:
                raise BucketRefusedError(
                    problem="it has data of a server that is no cluster",
                    remedy="Turn that server into a cluster with --from-data, or use an empty bucket.",
                )
            wanted = self.description(name, unflushed_bytes_max, replicas)
            try:
                await self.bucket.create(DESCRIPTION, msgspec.json.encode(wanted))
                return wanted
            except ObjectExistsError:
                found = await read_description(self.bucket)
                assert found is not None
        if (found.name, found.log) != (name, log):
            raise BucketRefusedError(
                problem=f"it belongs to the cluster {found.name}, whose log is in {found.log}",
                remedy="Give that name, or another bucket.",
            )
        return found

    async def _tie(self, cluster: ClusterDescription, partition: PartitionId) -> None:
        manifests = Manifests(self.bucket, partition)
        while (found := await manifests.newest()) is None:
            first: Manifest = msgspec.structs.replace(
                first_manifest(partition, self.clock),
                number=1,
                writer=self.ids.token("writer_"),
                lineage=cluster.lineage,
            )
            try:
                await manifests.create_next(first)
            except ObjectExistsError:
                continue
        if found.lineage != cluster.lineage:
            raise BucketRefusedError(
                problem=f"its newest manifest is of another log ({found.lineage})",
                remedy="Something else writes to it. Stop that, and use a bucket of its own for the cluster.",
            )
