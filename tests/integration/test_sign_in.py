"""Browsers sign in with a key and get a cookie: what it may do, how long, and how often one can try."""

from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import BOOTSTRAP, bearer, code_of, make_key

pytestmark = pytest.mark.anyio

LIMITS = replace(
    DEFAULT_LIMITS, browser_sign_ins_max=2, browser_sign_in_seconds=600, failed_sign_ins_per_minute_max=3
)


async def sign_in(server: LocalServer, secret: str) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=server.url) as client:
        return await client.post("/v1/login", json={"key": secret})


async def who(server: LocalServer, signed_in: httpx2.Response, site: str = "same-origin") -> httpx2.Response:
    """Ask as a browser does for a page of a site."""
    cookie = signed_in.headers["set-cookie"].partition(";")[0]
    async with httpx2.AsyncClient(base_url=server.url) as client:
        return await client.get("/v1/whoami", headers={"Cookie": cookie, "Sec-Fetch-Site": site})


async def test_a_cookie_is_a_key_of_its_own_and_ends_with_the_key(tmp_path: Path) -> None:
    async with local_server(tmp_path, api_key=BOOTSTRAP, limits=LIMITS) as server:
        key = await make_key(server.url, "reader")
        signed_in = await sign_in(server, key["secret"])
        assert signed_in.status_code == 200, signed_in.text
        cookie = signed_in.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert f"Max-Age={LIMITS.browser_sign_in_seconds}" in cookie
        assert key["secret"] not in cookie
        told = (await who(server, signed_in)).json()
        assert (told["principal"], told["role"]) == (key["principal"], "reader")
        assert told["via"] == "browser"
        assert told["key_id"] != key["id"]
        assert not (await who(server, signed_in, "cross-site")).is_success
        # What a browser has cached for one sign-in is not shown to the next.
        assert "Cookie" in (await who(server, signed_in)).headers["vary"]
        async with httpx2.AsyncClient(base_url=server.url, headers=bearer(BOOTSTRAP)) as client:
            assert (await client.delete(f"/v1/keys/{key['id']}")).is_success
        assert (await who(server, signed_in)).status_code == 401


async def test_a_key_has_so_many_browsers_and_the_oldest_makes_room(tmp_path: Path) -> None:
    async with local_server(tmp_path, api_key=BOOTSTRAP, limits=LIMITS) as server:
        secret = (await make_key(server.url, "writer"))["secret"]
        signed_in = [await sign_in(server, secret) for _ in range(LIMITS.browser_sign_ins_max + 1)]
        assert [(await who(server, one)).status_code for one in signed_in] == [401, 200, 200]


async def test_a_sign_in_ends_by_itself(tmp_path: Path) -> None:
    clock = ManualClock()
    async with local_server(tmp_path, api_key=BOOTSTRAP, limits=LIMITS, clock=clock) as server:
        signed_in = await sign_in(server, (await make_key(server.url, "reader"))["secret"])
        clock.advance(LIMITS.browser_sign_in_seconds - 1)
        assert (await who(server, signed_in)).status_code == 200
        clock.advance(1)
        assert (await who(server, signed_in)).status_code == 401


async def test_what_is_over_goes_when_somebody_else_signs_in(tmp_path: Path) -> None:
    clock = ManualClock()
    async with local_server(tmp_path, api_key=BOOTSTRAP, limits=LIMITS, clock=clock) as server:
        first, second = await make_key(server.url, "reader"), await make_key(server.url, "writer")

        async def parents() -> list[str]:
            async with httpx2.AsyncClient(base_url=server.url, headers=bearer(BOOTSTRAP)) as client:
                listed = (await client.get("/v1/keys")).json()["data"]
            return [one["parent"] for one in listed if one["parent"] is not None]

        await sign_in(server, first["secret"])
        assert await parents() == [first["id"]]
        clock.advance(LIMITS.browser_sign_in_seconds)
        await sign_in(server, second["secret"])
        assert await parents() == [second["id"]]


async def test_wrong_keys_are_tried_so_often_and_right_ones_always_work(tmp_path: Path) -> None:
    async with local_server(tmp_path, api_key=BOOTSTRAP, limits=LIMITS, clock=ManualClock()) as server:
        secret = (await make_key(server.url, "reader"))["secret"]
        tried = [await sign_in(server, "dsk_wrong") for _ in range(LIMITS.failed_sign_ins_per_minute_max + 1)]
        assert [one.status_code for one in tried] == [401, 401, 401, 429]
        assert code_of(tried[-1]) == "sign_ins_too_fast"
        assert (await sign_in(server, secret)).status_code == 200
