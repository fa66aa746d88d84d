import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from durable_sessions.clock import ManualClock
from durable_sessions.errors import WebhookUrlRejectedError
from durable_sessions.http.api.signing import SigningKeys
from durable_sessions.http.api.webhook_urls import Reach, WebhookTarget, parse
from durable_sessions.http.api.webhooks import Resolve, WebhookSender
from durable_sessions.limits import Limits
from durable_sessions.storage.subscriptions import Delivery
from durable_sessions.streams.subscriptions import SubscriptionKey
from durable_sessions.streams.watched import stream_info
from tests.support.receiver import DONE, Receiver, answer

pytestmark = pytest.mark.anyio

SIGNING_KEYS = SigningKeys(bytes(range(32)), b"s" * 32)
DELIVERY = Delivery(
    SubscriptionKey("w", "a/b ü"),
    "",
    "http://here:4437",
    "w_1",
    3,
    [stream_info("events/a", explicit=False, acked=-1, tail=2)],
)


def resolving_to(*addresses: str) -> Resolve:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


def sender(
    limits: Limits | None = None,
    resolve: Resolve | None = None,
    tls: ssl.SSLContext | None = None,
    reach: Reach = Reach.LOOPBACK,
) -> WebhookSender:
    return WebhookSender(SIGNING_KEYS, ManualClock(), limits or Limits(), lambda: reach, resolve, tls)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as running:
        yield running


# URLs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://example.com/hook", WebhookTarget("https", "example.com", 443, "/hook", Reach.LOOPBACK)),
        ("HTTPS://Example.COM", WebhookTarget("https", "example.com", 443, "/", Reach.LOOPBACK)),
        ("https://example.com?a=b", WebhookTarget("https", "example.com", 443, "/?a=b", Reach.LOOPBACK)),
        (
            "https://example.com:8443/a?b=/c",
            WebhookTarget("https", "example.com", 8443, "/a?b=/c", Reach.LOOPBACK),
        ),
        ("https://93.184.216.34/", WebhookTarget("https", "93.184.216.34", 443, "/", Reach.LOOPBACK)),
        ("https://[2606:4700::1111]:9/", WebhookTarget("https", "2606:4700::1111", 9, "/", Reach.LOOPBACK)),
        (
            "https://xn--bcher-kva.example/",
            WebhookTarget("https", "xn--bcher-kva.example", 443, "/", Reach.LOOPBACK),
        ),
        ("http://localhost:80/x", WebhookTarget("http", "localhost", 80, "/x", Reach.LOOPBACK)),
        ("http://127.0.0.1:9/x", WebhookTarget("http", "127.0.0.1", 9, "/x", Reach.LOOPBACK)),
        ("http://127.254.3.4", WebhookTarget("http", "127.254.3.4", 80, "/", Reach.LOOPBACK)),
    ],
)
def test_accepted_urls(url: str, target: WebhookTarget) -> None:
    assert parse(url, Reach.LOOPBACK) == target


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "ftp://example.com/",
        "file:///etc/passwd",
        "http://example.com/",
        "http://10.0.0.1/hook",
        "http://[::1]/",
        "http://localhost.example.com/",
        "http://128.0.0.1/",
        "https://localhost/",
        "https://a.localhost/",
        "https://metadata.google.internal/",
        "https://printer.local/",
        "https://user:secret@example.com/",
        "https://example.com@10.0.0.1/",
        "https://example.com\\@10.0.0.1/",
        "https://example.com\\.10.0.0.1/",
        "https://example.com/#fragment",
        "https://exam ple.com/",
        "https://example.com/ü",
        "https://bücher.example/",
        "https://example.com/\n",
        "https:///path",
        "https://:443/",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://example.com:http/",
        "https://example.com./",
        "https://-a.example/",
        "https://a..example/",
        "https://%31%30.0.0.1/",
        "https://[fe80::1%25eth0]/",
        "https://[::ffff:10.0.0.1",
    ],
)
def test_refused_urls(url: str) -> None:
    for reach in (Reach.PUBLIC, Reach.LOOPBACK):
        with pytest.raises(WebhookUrlRejectedError):
            parse(url, reach)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.100.100.200",
        "0.0.0.0",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "127.1",
        "127.0.0.01",
        "127.0.0.1.",
        "1.2.3.4.5",
        "0x",
        "[::]",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:a9fe:a9fe]",
        "[::127.0.0.1]",
        "[64:ff9b::10.0.0.1]",
        "[64:ff9b:1::1]",
        "[2002:7f00:1::]",
        "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
        "[2001:db8::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[ff0e::1]",
    ],
)
def test_addresses_that_are_not_public(host: str) -> None:
    for reach in (Reach.PUBLIC, Reach.LOOPBACK):
        with pytest.raises(WebhookUrlRejectedError):
            parse(f"https://{host}/", reach)


INSIDE = ["127.0.0.1", "127.9.9.9", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1"]
INSIDE_6 = ["::1", "fc00::1", "fd12::1", "::ffff:10.0.0.1"]
NEVER = [
    "169.254.169.254",
    "100.100.100.200",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "172.32.0.1",
    "11.0.0.1",
]
NEVER_6 = ["::", "fe80::1", "fd00:ec2::254", "ff02::1", "::ffff:169.254.169.254", "64:ff9b::10.0.0.1"]


@pytest.mark.parametrize("address", [*INSIDE, *INSIDE_6, *NEVER, *NEVER_6])
def test_inward_addresses_need_the_setting_and_some_are_never_reached(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    inside = address in (*INSIDE, *INSIDE_6)
    with pytest.raises(WebhookUrlRejectedError, match=r"webhook_private_addresses|use https"):
        parse(f"http://{host}:22/", Reach.PUBLIC)
    assert not parse("https://example.com/", Reach.PUBLIC).allows(address) or address in (
        "172.32.0.1",
        "11.0.0.1",
    )
    assert parse("http://hook.internal/", Reach.PRIVATE).allows(address) is inside
    if inside:
        assert parse(f"http://{host}:22/", Reach.PRIVATE).allows(address)
        assert parse(f"https://{host}/", Reach.PRIVATE).allows(address)
    else:
        with pytest.raises(WebhookUrlRejectedError):
            parse(f"http://{host}/", Reach.PRIVATE)


def test_http_never_leaves_the_private_network() -> None:
    target = parse("http://hook.example.com/", Reach.PRIVATE)
    assert not target.allows("93.184.216.34")
    assert parse("https://hook.example.com/", Reach.PRIVATE).allows("93.184.216.34")
    with pytest.raises(WebhookUrlRejectedError):
        parse("http://93.184.216.34/", Reach.PRIVATE)
    for url in ("http://localhost:8080/", "http://127.0.0.1:22/"):
        with pytest.raises(WebhookUrlRejectedError, match="webhook_private_addresses"):
            parse(url, Reach.PUBLIC)


@pytest.mark.anyio
async def test_a_name_that_came_to_mean_this_machine_is_not_reached(receiver: Receiver) -> None:
    """The address is looked at when it is connected to, and it is the one that is connected to."""
    for reach, accepted in ((Reach.PUBLIC, False), (Reach.LOOPBACK, False), (Reach.PRIVATE, True)):
        sending = sender(resolve=resolving_to("127.0.0.1"), reach=reach)
        url = f"http://hook.example.com:{receiver.port}/"
        result = await sending.deliver(replace(DELIVERY, url=url))
        assert result.accepted is accepted, reach
        await sending.close()
    assert len(receiver.received) == 1


def test_an_address_behind_a_translator_counts_as_itself() -> None:
    assert parse("https://[64:ff9b::93.184.216.34]/", Reach.PUBLIC).host == "64:ff9b::93.184.216.34"


def test_resolved_addresses_are_held_to_the_same_rule() -> None:
    public, local = parse("https://example.com/", Reach.LOOPBACK), parse("http://localhost/", Reach.LOOPBACK)
    for address in ("127.0.0.1", "10.0.0.1", "::1", "fe80::1%eth0", "::ffff:10.0.0.1"):
        assert not public.allows(address)
    assert public.allows("93.184.216.34")
    assert local.allows("127.0.0.1")
    assert local.allows("::1")
    assert not local.allows("10.0.0.1")
    assert not local.allows("93.184.216.34")


# Sending ----------------------------------------------------------------------------------


async def test_a_webhook_says_what_it_must_and_is_signed(receiver: Receiver) -> None:
    receiver.respond = lambda _: DONE
    result = await sender().deliver(replace(DELIVERY, url=receiver.url + "?q=1"))
    assert (result.accepted, result.done) == (True, True)
    (got,) = receiver.received
    assert (got.method, got.target) == ("POST", "/hook?q=1")
    assert got.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert got.headers["content-type"] == "application/json"
    body = got.json()
    token = body.pop("callback_token")
    assert SIGNING_KEYS.check_token(token, DELIVERY.key, ManualClock().now_ms() // 1000) == 3
    assert body == {
        "subscription_id": "a/b ü",
        "wake_id": "w_1",
        "generation": 3,
        "streams": [
            {
                "path": "events/a",
                "link_type": "glob",
                "acked_offset": "-1",
                "tail_offset": "0000000000000000_0000000000000002",
                "has_pending": True,
            }
        ],
        "callback_url": "http://here:4437/v1/stream/__ds/subscriptions/a%2Fb%20%C3%BC/callback",
    }
    seconds = ManualClock().now_ms() // 1000
    assert got.headers["webhook-signature"] == SIGNING_KEYS.signature(got.body, seconds)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"done":false}',
        b'{"done":"true"}',
        b'{"done":1}',
        b"[]",
        b"ok",
        b"\xff",
        b'{"a":' + b"[" * 9999,
    ],
)
async def test_an_answer_that_does_not_say_done_is_accepted_all_the_same(
    receiver: Receiver, body: bytes
) -> None:
    receiver.respond = lambda _: answer(202, body)
    result = await sender().deliver(replace(DELIVERY, url=receiver.url))
    assert (result.accepted, result.done) == (True, False)


@pytest.mark.parametrize("status", [301, 307, 400, 404, 410, 429, 500, 503])
async def test_any_other_status_is_a_failure_and_leads_nowhere_else(receiver: Receiver, status: int) -> None:
    async with Receiver() as elsewhere:
        receiver.respond = lambda _: answer(status, b'{"done":true}', f"Location: {elsewhere.url}")
        result = await sender().deliver(replace(DELIVERY, url=receiver.url))
        assert not result.accepted
        assert str(status) in result.problem
        assert elsewhere.connections == 0


async def test_no_proxy_is_taken_from_the_environment(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert (await sender().deliver(replace(DELIVERY, url=receiver.url))).accepted


async def test_a_receiver_that_is_not_there_or_breaks_off_is_a_failure() -> None:
    async with Receiver(lambda _: b"") as receiver:
        assert not (await sender().deliver(replace(DELIVERY, url=receiver.url))).accepted
        receiver.respond = lambda _: b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"
        assert not (await sender().deliver(replace(DELIVERY, url=receiver.url))).accepted
        receiver.respond = lambda _: b"not http\r\n\r\n"
        assert not (await sender().deliver(replace(DELIVERY, url=receiver.url))).accepted
    result = await sender().deliver(replace(DELIVERY, url=receiver.url))
    assert not result.accepted
    assert result.problem


async def test_a_slow_receiver_is_given_up(receiver: Receiver) -> None:
    async def late() -> bytes:
        await asyncio.sleep(5)
        return DONE

    receiver.respond = lambda _: late()
    result = await sender(Limits(webhook_seconds_max=0.05)).deliver(replace(DELIVERY, url=receiver.url))
    assert not result.accepted
    assert "0.05 seconds" in result.problem


@pytest.mark.parametrize(("size", "done"), [(64, True), (65, False)])
async def test_an_answer_is_read_up_to_the_limit(receiver: Receiver, size: int, done: bool) -> None:
    receiver.respond = lambda _: answer(200, b'{"done":true}'.ljust(size))
    result = await sender(Limits(webhook_answer_bytes_max=64)).deliver(replace(DELIVERY, url=receiver.url))
    assert (result.accepted, result.done) == (True, done)


async def test_no_more_than_so_many_at_a_time(receiver: Receiver) -> None:
    async def soon() -> bytes:
        await asyncio.sleep(0.02)
        return DONE

    receiver.respond = lambda _: soon()
    sending = sender(Limits(webhook_deliveries_max=4))
    one = replace(DELIVERY, url=receiver.url)
    results = await asyncio.gather(*[sending.deliver(one) for _ in range(7)])
    assert all(result.done for result in results)
    assert receiver.most_at_once == 2, "half of them, because the rest is left for other workspaces"


async def test_a_workspace_whose_receivers_hang_leaves_room_for_others(receiver: Receiver) -> None:
    hang = asyncio.Event()
    waiting = 0

    async def never() -> bytes:
        nonlocal waiting
        waiting += 1
        await hang.wait()
        return DONE

    receiver.respond = lambda _: never()
    sending = sender(Limits(webhook_deliveries_max=4))
    one = replace(DELIVERY, url=receiver.url)
    hanging = [asyncio.create_task(sending.deliver(one)) for _ in range(20)]
    while waiting < 2:
        await asyncio.sleep(0.01)
    receiver.respond = lambda _: DONE
    other = replace(one, key=SubscriptionKey("other", "sub"))
    assert (await sending.deliver(other)).done
    assert not any(task.done() for task in hanging)
    hang.set()
    assert all(result.done for result in await asyncio.gather(*hanging))


# Addresses --------------------------------------------------------------------------------


async def test_a_name_that_has_come_to_mean_this_machine_is_not_connected_to(receiver: Receiver) -> None:
    url = f"https://example.com:{receiver.port}/"
    for addresses in (["127.0.0.1"], ["::1", "10.0.0.1"], ["::ffff:127.0.0.1"], []):
        result = await sender(resolve=resolving_to(*addresses)).deliver(replace(DELIVERY, url=url))
        assert not result.accepted
        assert "no address" in result.problem
    assert receiver.connections == 0


async def test_of_several_addresses_only_allowed_ones_are_tried(receiver: Receiver) -> None:
    url = f"http://localhost:{receiver.port}/"
    resolve = resolving_to("10.0.0.1", "127.0.0.9", "127.0.0.1")
    assert (await sender(resolve=resolve).deliver(replace(DELIVERY, url=url))).accepted
    result = await sender(resolve=resolving_to("10.0.0.1")).deliver(replace(DELIVERY, url=url))
    assert not result.accepted


async def test_localhost_is_resolved_by_the_system(receiver: Receiver) -> None:
    sending = sender()
    assert (await sending.deliver(replace(DELIVERY, url=f"http://localhost:{receiver.port}/"))).accepted
    await sending.close()


async def test_a_url_that_is_refused_now_is_not_sent_to(receiver: Receiver) -> None:
    result = await sender().deliver(replace(DELIVERY, url=f"http://0.0.0.0:{receiver.port}/"))
    assert not result.accepted
    assert receiver.connections == 0


@pytest.mark.parametrize(("host", "accepted"), [("hook.example.com", True), ("other.example.com", False)])
async def test_the_certificate_is_for_the_name_and_the_connection_for_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, accepted: bool
) -> None:
    certificate = _certificate(tmp_path, "hook.example.com")
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(certificate)
    trusting = ssl.create_default_context(cafile=str(certificate))
    names: list[str | None] = []
    serving.sni_callback = lambda _socket, name, _context: names.append(name)
    monkeypatch.setattr(WebhookTarget, "allows", lambda *_: True)
    receiver = Receiver()
    await receiver.start(serving)
    sending = sender(resolve=resolving_to("127.0.0.1"), tls=trusting)
    result = await sending.deliver(replace(DELIVERY, url=f"https://{host}:{receiver.port}/"))
    assert result.accepted is accepted, result.problem
    assert names == [host]
    if accepted:
        assert receiver.received[0].headers["host"] == f"{host}:{receiver.port}"
    await receiver.stop()


def _certificate(directory: Path, name: str) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = directory / "certificate.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
    return path
