"""Files by the official SDK, and the artifacts that they name; vaults, which are refused with a reason."""

from hashlib import sha256
from inspect import isawaitable

import httpx2
import pytest
from anthropic import AsyncAnthropic, BadRequestError, NotFoundError, PermissionDeniedError

from tests.anthropic.conftest import Account

pytestmark = pytest.mark.anyio
DATA = bytes(range(256)) * 40 + b"\r\n--boundary\r\n\r\n--"


def native(account: Account) -> httpx2.Client:
    return httpx2.Client(base_url=account.url + "/v1", headers={"x-api-key": account.key}, verify=False)


async def test_a_file_comes_back_as_it_was_sent(sdk: AsyncAnthropic, account: Account) -> None:
    made = await sdk.beta.files.upload(file=("folder/plot.png", DATA, "image/png"))
    assert made.id.startswith("file_")
    assert (made.filename, made.mime_type, made.size_bytes, made.downloadable) == (
        "plot.png",
        "image/png",
        len(DATA),
        True,
    )
    assert await sdk.beta.files.retrieve_metadata(made.id) == made
    content = (await sdk.beta.files.download(made.id)).read()
    assert (await content if isawaitable(content) else content) == DATA
    with native(account) as api:
        part = api.get(f"/files/{made.id}/content", headers={"Range": "bytes=1-3"})
        assert (part.status_code, part.content) == (206, DATA[1:4])
        assert part.headers["content-type"] == "image/png"
        assert api.get(f"/artifacts/{sha256(DATA).hexdigest()}").content == DATA
    assert (await sdk.beta.files.delete(made.id)).type == "file_deleted"
    with pytest.raises(NotFoundError):
        await sdk.beta.files.retrieve_metadata(made.id)
    with pytest.raises(NotFoundError):
        await sdk.beta.files.download(made.id)


async def test_files_are_listed_newest_first_and_by_id(sdk: AsyncAnthropic) -> None:
    made = [(await sdk.beta.files.upload(file=(f"{n}.txt", b"same", "text/plain"))).id for n in range(5)]
    assert [one.id async for one in sdk.beta.files.list(limit=2)] == made[::-1]
    named = await sdk.beta.files.list(ids=[made[3], "file_missing", made[1]])
    assert [one.id for one in named.data] == [made[3], made[1]]
    assert (await sdk.beta.files.list(scope_id="sesn_x")).data == []


@pytest.mark.parametrize(
    ("content_type", "body", "told"),
    [
        ("application/json", b"{}", "multipart/form-data"),
        ("multipart/form-data", b"--x--", "boundary"),
        ("multipart/form-data; boundary=x", b"", "begin with its boundary"),
        ("multipart/form-data; boundary=x", b"--x--", "no part"),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\n\r\nhi", "ends before"),
        ("multipart/form-data; boundary=x", b"--x\r\nA: b\r\n\r\nhi\r\n--x--", "no name"),
        ("multipart/form-data; boundary=x", b"--x\r\n" + b"A" * 9_000 + b"\r\n--x--", "no head"),
        ("multipart/form-data; boundary=x", b"--x\r\nA: b\r\n\r\n" * 50, "no head"),
    ],
)
def test_broken_forms_are_refused(account: Account, content_type: str, body: bytes, told: str) -> None:
    with native(account) as api:
        answer = api.post("/files", content=body, headers={"Content-Type": content_type})
    assert answer.status_code == 400, answer.text
    assert told in answer.json()["error"]["message"]


async def test_forms_of_all_kinds_are_read(sdk: AsyncAnthropic, account: Account) -> None:
    empty = await sdk.beta.files.upload(file=("empty", b""))
    assert (empty.size_bytes, empty.filename) == (0, "empty")
    by_hand = '--b c\nContent-Disposition: form-data; name="file"; filename="a\\"b.txt"\n\nHi\n--b c--\n'
    with native(account) as api:
        answer = api.post(
            "/files", content=by_hand, headers={"Content-Type": 'multipart/form-data; boundary="b c"'}
        )
        assert answer.status_code == 200, answer.text
        assert (answer.json()["filename"], answer.json()["size_bytes"]) == ('a"b.txt', 2)


async def test_what_a_file_cannot_be(sdk: AsyncAnthropic, account: Account) -> None:
    with pytest.raises(BadRequestError, match="expire"):
        await sdk.beta.files.upload(file=("a", b"x"), expires_in_seconds=3600)
    with pytest.raises(BadRequestError, match="filename"):
        await sdk.beta.files.upload(file=("n" * 501, b"x"))
    reader = AsyncAnthropic(base_url=account.url, api_key=account.new_key("reader"), max_retries=0)
    with pytest.raises(PermissionDeniedError):
        await reader.beta.files.upload(file=("a", b"x"))
    assert (await reader.beta.files.list()).data == []
    await reader.close()


async def test_vaults_are_refused_with_what_to_use_instead(sdk: AsyncAnthropic) -> None:
    with pytest.raises(NotFoundError, match="secret manager"):
        await sdk.beta.vaults.create(display_name="Keys")
    with pytest.raises(NotFoundError, match="vaults are not kept"):
        await sdk.beta.vaults.retrieve("vlt_1")
