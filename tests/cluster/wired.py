"""A cluster each of whose nodes reaches NATS and S3 by cables of its own, and has a clock of its own."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from tools.local_cluster import LocalCluster, free_ports

from tests.support.cable import Cable
from tests.support.shim import Shim, compile_shim


class WiredCluster(LocalCluster):
    """Cables by node: to each NATS server, and to the S3 server. ``clocks`` are the clocks of the nodes."""

    def __init__(self, directory: Path, *, with_nats: bool = True) -> None:
        super().__init__(directory, free_ports(3), with_nats=with_nats)
        library = compile_shim(directory)
        self.clocks = [
            Shim(library, directory / f"clock-{number}", directory / "nothing")
            for number in range(len(self.ports))
        ]
        self._to_nats: dict[int, list[Cable]] = {}
        self._to_s3: dict[int, Cable] = {}

    def node_environment(self, number: int) -> Mapping[str, str]:
        """Return where a node finds the others: at the near ends of its cables."""
        changed = {}
        if self.nats:
            urls = self.environment["DURABLE_SESSIONS_NATS"].split(",")
            cables = self._to_nats[number] = [Cable(urlsplit(url).port or 0) for url in urls]
            changed["DURABLE_SESSIONS_NATS"] = ",".join(f"nats://127.0.0.1:{one.port}" for one in cables)
        cable = self._to_s3[number] = Cable(urlsplit(self.environment["AWS_ENDPOINT_URL"]).port or 0)
        changed["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{cable.port}"
        return {**self.environment, **changed, **self.clocks[number].environment}

    def nats_of(self, number: int) -> list[Cable]:
        """Return the cables from a node to NATS."""
        return self._to_nats[number]

    def s3_of(self, number: int) -> Cable:
        """Return the cable from a node to S3."""
        return self._to_s3[number]

    def stop(self, *, politely: bool = True) -> None:
        """End everything, the cables last."""
        cables = [cable for one in self._to_nats.values() for cable in one] + list(self._to_s3.values())
        for cable in cables:
            cable.mend()
        super().stop(politely=politely)
        for cable in cables:
            cable.close()
