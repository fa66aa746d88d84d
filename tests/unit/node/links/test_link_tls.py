"""TLS between nodes: both sides show a certificate, and neither takes one of another authority."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from durable_sessions.cli.main import cli
from durable_sessions.errors import LinkDownError, SettingsError
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.message import Response
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.node.link import NodeLink
from durable_sessions.node.link_address import TcpAddress, link_address
from durable_sessions.node.link_server import LinkServer
from durable_sessions.node.link_tls import LinkTls
from durable_sessions.settings import ENVIRONMENT_PREFIX, Settings
from tests.support.authority import Authority

from .conftest import SECRET
from .test_link import echo, request

pytestmark = pytest.mark.anyio
LIMITS = replace(DEFAULT_LIMITS, link_hold_seconds_max=0.1)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "own")


@pytest.fixture
def stranger(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "stranger")


def settings_of(signed_by: Authority, trusting: Authority, *, days: int = 1) -> Settings:
    """Return the settings of a node with a certificate of one authority, which trusts another."""
    certificate, key = signed_by.certify(f"node {days}", days=days)
    return Settings(link_ca=str(trusting.file), link_certificate=str(certificate), link_key=str(key))


def tls(signed_by: Authority, trusting: Authority) -> LinkTls:
    found = LinkTls.open(settings_of(signed_by, trusting))
    assert found is not None
    return found


@asynccontextmanager
async def listening(security: LinkTls) -> AsyncIterator[tuple[LinkServer, int]]:
    server = LinkServer(echo, [SECRET], DEFAULT_LIMITS, refuse=ANSWER_FORMAT.refuse)
    address = TcpAddress("127.0.0.1", 0, security)
    await server.listen(address)
    try:
        yield server, address.port
    finally:
        await server.close()


async def ask(port: int, security: LinkTls | None, body: bytes = b"hello") -> bytes:
    link = NodeLink(TcpAddress("127.0.0.1", port, security), [SECRET], LIMITS)
    try:
        answer = await link.ask(3, request(body=body))
        assert isinstance(answer, Response)
        return answer.body
    finally:
        await link.close()


async def test_requests_and_large_bodies_go_both_ways(authority: Authority) -> None:
    large = os.urandom(3 * 1024 * 1024)
    async with listening(tls(authority, authority)) as (_, port):
        assert await ask(port, tls(authority, authority)) == b"hello"
        assert await ask(port, tls(authority, authority), large) == large


async def test_an_asker_with_a_certificate_of_another_authority_is_refused(
    authority: Authority, stranger: Authority
) -> None:
    async with listening(tls(authority, authority)) as (server, port):
        with pytest.raises(LinkDownError):
            await ask(port, tls(stranger, trusting=authority))
        assert server.counts.requests == 0
        assert await ask(port, tls(authority, authority)) == b"hello"


async def test_an_owner_with_a_certificate_of_another_authority_is_refused(
    authority: Authority, stranger: Authority
) -> None:
    async with listening(tls(stranger, trusting=authority)) as (server, port):
        with pytest.raises(LinkDownError, match=r"(?i)certificate"):
            await ask(port, tls(authority, authority))
        assert server.counts.requests == 0


async def test_an_asker_without_a_certificate_or_without_tls_is_refused(authority: Authority) -> None:
    bare = ssl.create_default_context(cafile=str(authority.file))
    async with listening(tls(authority, authority)) as (server, port):
        with pytest.raises(LinkDownError):
            await ask(port, replace(tls(authority, authority), asking=bare))
        with pytest.raises(LinkDownError):
            await ask(port, None)
        assert server.counts.requests == 0
        assert await ask(port, tls(authority, authority)) == b"hello"


async def test_an_asker_with_tls_is_not_taken_by_an_owner_without(authority: Authority) -> None:
    server = LinkServer(echo, [SECRET], DEFAULT_LIMITS, refuse=ANSWER_FORMAT.refuse)
    address = TcpAddress("127.0.0.1", 0)
    await server.listen(address)
    with pytest.raises(LinkDownError):
        await ask(address.port, tls(authority, authority))
    await server.close()


async def test_nothing_is_readable_on_the_way(authority: Authority) -> None:
    seen = bytearray()

    async def tap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, out = await asyncio.open_connection("127.0.0.1", port)

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                seen.extend(data)
                sink.write(data)
            sink.close()

        await asyncio.gather(copy(reader, out), copy(inner, writer))
        ended.set()

    ended = asyncio.Event()
    async with listening(tls(authority, authority)) as (_, port):
        between = await asyncio.start_server(tap, "127.0.0.1", 0)
        said = b"not for others " * 100
        assert await ask(between.sockets[0].getsockname()[1], tls(authority, authority), said) == said
        await ended.wait()
        between.close()
    assert len(seen) > len(said)
    assert said[:15] not in seen


# Settings -----------------------------------------------------------------------------


def test_without_certificates_links_are_not_encrypted() -> None:
    assert LinkTls.open(Settings()) is None
    assert link_address(Settings()).tls is None


def test_files_that_are_of_no_use_are_named(
    authority: Authority, stranger: Authority, tmp_path: Path
) -> None:
    usual = settings_of(authority, authority)
    other_key = str(stranger.certify("other")[1])
    (tmp_path / "empty").touch()
    for wrong, problem in (
        (replace(usual, link_key=""), "needs link_ca, link_certificate, link_key: link_key is missing"),
        (replace(usual, link_ca=str(tmp_path / "none")), "link_ca is .*none, which cannot be read: No such"),
        (replace(usual, link_ca=str(tmp_path / "empty")), "is of no use for TLS"),
        (replace(usual, link_key=other_key), "is of no use for TLS"),
        (replace(usual, link="localhost.invalid:1"), "name localhost.invalid, the host of link"),
        (settings_of(stranger, trusting=authority), "not one that other nodes accept"),
        (settings_of(authority, authority, days=-1), "certificate has expired"),
    ):
        with pytest.raises(SettingsError, match=problem):
            link_address(wrong)
    assert link_address(settings_of(authority, authority)).tls is not None


def test_the_check_of_a_cluster_says_what_is_wrong_with_certificates_and_secret(
    authority: Authority, stranger: Authority, tmp_path: Path
) -> None:
    bucket = str(tmp_path / "bucket")
    assert CliRunner().invoke(cli, ["cluster", "init", "--name", "prod", "--bucket", bucket]).exit_code == 0
    for wanted, status, said in (
        (settings_of(authority, authority), 0, "Bucket and log are as they must be."),
        (settings_of(authority, trusting=stranger), 1, "not one that other nodes accept"),
        (Settings(cluster_secret_file=str(tmp_path / "none")), 1, "none, which cannot be read"),
        (Settings(cluster_secret="s" * 31), 1, "cluster_secret has 31"),
        (Settings(cluster_secret="s" * 32), 0, "Bucket and log are as they must be."),
    ):
        environment = {
            ENVIRONMENT_PREFIX + name.upper(): getattr(wanted, name)
            for name in ("link_ca", "link_certificate", "link_key", "cluster_secret", "cluster_secret_file")
        }
        done = CliRunner().invoke(cli, ["cluster", "check", "--bucket", bucket], env=environment)
        assert (done.exit_code, said in done.output) == (status, True), done.output
