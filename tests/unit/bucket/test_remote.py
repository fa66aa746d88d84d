"""How the answers of an object store are taken, from a server that says what it is told to say."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from obstore import exceptions

from durable_sessions.bucket.remote import RemoteStore
from durable_sessions.bucket.store import Bucket
from durable_sessions.errors import (
    BucketDeniedError,
    BucketError,
    ObjectExistsError,
    ObjectNotFoundError,
)

pytestmark = pytest.mark.anyio

OK, EXISTS = "200 OK", "412 Precondition Failed"
CONFLICT = "409 Conflict"


class ScriptedS3:
    """Answers requests in turn: a status and a body; ``drop`` hangs up, ``hang`` never answers.

    ``+`` before a status of a PUT means that it takes effect all the same.
    """

    def __init__(self) -> None:
        self.script: list[tuple[str, str]] = []
        self.requests: list[str] = []
        self.conditional: list[bool] = []
        self.objects: dict[str, bytes] = {}

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path = head[0].split(" ")[:2]
        self.requests.append(f"{method} {path}")
        self.conditional.append(headers.get("if-none-match") == "*")
        status, text = self.script.pop(0) if self.script else (OK, "")
        if method == "put" and (status.startswith("+") or status == OK):
            self.objects[path] = body
        if method == "get" and status == OK:
            text = self.objects[path].decode()
        status = status.removeprefix("+")
        if status == "hang":
            await asyncio.sleep(60)
        if status == "drop":
            return False
        writer.write(
            f'HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\nETag: "x"\r\n'
            f"Last-Modified: Sun, 15 Nov 2026 12:00:00 GMT\r\n\r\n{text}".encode()
        )
        await writer.drain()
        return True


@asynccontextmanager
async def scripted(
    monkeypatch: pytest.MonkeyPatch, seconds: float = 5.0
) -> AsyncIterator[tuple[ScriptedS3, Bucket]]:
    s3 = ScriptedS3()
    server = await asyncio.start_server(s3, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")

    async def no_pause(_: float) -> None: ...

    try:
        yield s3, Bucket(RemoteStore.open("s3://name/prefix", seconds), "s3", pause=no_pause)
    finally:
        server.close()


def error(code: str) -> str:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>told so</Message></Error>"


async def test_a_create_is_conditional_and_below_the_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(monkeypatch) as (s3, bucket):
        await bucket.create("a/b", b"x")
        await bucket.put("a/c", b"y")
        assert s3.requests == ["put /name/prefix/a/b", "put /name/prefix/a/c"]
        assert s3.conditional == [True, False]


async def test_a_failed_condition_means_that_it_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(monkeypatch) as (s3, bucket):
        s3.script = [(EXISTS, error("PreconditionFailed"))]
        with pytest.raises(ObjectExistsError):
            await bucket.create("a", b"x")
        assert len(s3.requests) == 1


async def test_a_conflict_with_a_rival_under_way_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(monkeypatch) as (s3, bucket):
        s3.script = [(CONFLICT, error("ConditionalRequestConflict"))]
        await bucket.create("a", b"x")
        assert len(s3.requests) == 2
        s3.objects["/name/prefix/b"] = b"rival"
        s3.script = [(CONFLICT, error("ConditionalRequestConflict")), (EXISTS, error("PreconditionFailed"))]
        with pytest.raises(ObjectExistsError):
            await bucket.create("b", b"x")


async def test_another_conflict_means_that_it_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(monkeypatch) as (s3, bucket):
        s3.script = [(CONFLICT, error("BlobAlreadyExists"))]
        with pytest.raises(ObjectExistsError):
            await bucket.create("a", b"x")


@pytest.mark.parametrize("fault", ["+500 Internal Server Error", "+503 Slow Down", "+drop"])
async def test_a_create_that_took_effect_before_its_answer_was_lost(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    async with scripted(monkeypatch) as (s3, bucket):
        s3.script = [(fault, ""), (EXISTS, error("PreconditionFailed"))]
        await bucket.create("a", b"mine")
        assert s3.requests == ["put /name/prefix/a", "put /name/prefix/a", "get /name/prefix/a"]


async def test_a_create_that_lost_while_its_first_try_was_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(monkeypatch) as (s3, bucket):
        s3.objects["/name/prefix/a"] = b"rival"
        s3.script = [("503 Slow Down", ""), (EXISTS, error("PreconditionFailed"))]
        with pytest.raises(ObjectExistsError):
            await bucket.create("a", b"mine")


async def test_a_request_that_is_not_answered_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(monkeypatch, seconds=0.2) as (s3, bucket):
        s3.script = [("+hang", ""), (EXISTS, error("PreconditionFailed"))]
        await bucket.create("a", b"mine")
        s3.script = [("hang", "")] * 10
        with pytest.raises(BucketError):
            await bucket.get("a")


async def test_reads_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(monkeypatch) as (s3, bucket):
        s3.objects["/name/prefix/a"] = b"content"
        s3.script = [("503 Slow Down", ""), ("drop", "")]
        assert await bucket.get("a") == b"content"
        assert len(s3.requests) == 3


async def test_what_is_missing_and_what_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(monkeypatch) as (s3, bucket):
        s3.script = [("404 Not Found", error("NoSuchKey"))]
        with pytest.raises(ObjectNotFoundError):
            await bucket.get("a")
        s3.script = [("404 Not Found", error("NoSuchBucket"))]
        with pytest.raises(BucketDeniedError, match="it does not exist"):
            await bucket.create("a", b"x")
        for status in ("403 Forbidden", "401 Unauthorized"):
            s3.script = [(status, error("AccessDenied"))]
            with pytest.raises(BucketDeniedError, match="told so"):
                await bucket.get("a")
        assert len(s3.requests) == 4


async def test_plain_http_must_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(monkeypatch) as (s3, _):
        monkeypatch.delenv("AWS_ALLOW_HTTP")
        with pytest.raises(BucketError):
            await RemoteStore.open("s3://name/prefix", 1.0).get("a")
        assert s3.requests == []


async def test_a_store_without_credentials_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(monkeypatch) as (_, bucket):
        said = "Error performing PUT http://169.254.169.254/latest/api/token in 1ms: refused"

        def refuse(*_: object, **__: object) -> None:
            raise exceptions.GenericError(said)

        monkeypatch.setattr("obstore.get_async", refuse)
        with pytest.raises(BucketError, match="set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION"):
            await bucket.get("a")
