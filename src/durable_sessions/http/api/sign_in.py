"""Signing in with a browser over HTTP, and who a caller is."""

from math import ceil
from typing import ClassVar
from urllib.parse import parse_qs

import msgspec

from durable_sessions import __version__
from durable_sessions.access.browser_sign_ins import BrowserSignIns
from durable_sessions.access.key import LiveKey
from durable_sessions.access.key_table import KeyTable
from durable_sessions.access.rate import TokenBucket
from durable_sessions.clock import Clock
from durable_sessions.errors import (
    DurableSessionsError,
    InvalidRequestError,
    SignInsTooFastError,
)
from durable_sessions.http.api.auth import Authenticator, Caller, Role
from durable_sessions.http.api.browser_cookie import CookieWriter
from durable_sessions.http.api.error_responses import refusal_at
from durable_sessions.http.api.json_body import Expected, decode
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.api.route_table import ROUTES, Handler, Match
from durable_sessions.http.bodies.sign_in import SignInBody, WhoAnswer
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.http.openapi.answer_headers import LOCATION
from durable_sessions.http.openapi.sign_in import FORM
from durable_sessions.http.ui.addresses import base_path, is_address
from durable_sessions.limits import Limits

_JSON: list[Header] = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")]
_SEND = Expected("A sign-in", InvalidRequestError, 'Send {"key": "dsk_…"}.')
_KEY_CHARACTERS_MAX = 1_000
_FORM_BYTES_MAX = 16_384


class SignIn:
    """Answers requests to sign in and out, and says who a caller is.

    Only the system partition has ``sign_ins``: requests to sign in are routed there.
    """

    def __init__(
        self,
        keys: KeyTable,
        sign_ins: BrowserSignIns | None,
        auth: Authenticator,
        clock: Clock,
        limits: Limits,
        parser: BodyParser,
        public_url: str,
    ) -> None:
        self._parser = parser
        self._keys = keys
        self._stored = sign_ins
        self._auth = auth
        self._clock = clock
        self._limits = limits
        self._cookies = CookieWriter(public_url)
        self._base = base_path(public_url)
        per_minute = limits.failed_sign_ins_per_minute_max
        self._failures = TokenBucket(per_minute / 60, per_minute, clock.now_ms())

    @property
    def _sign_ins(self) -> BrowserSignIns:
        assert self._stored is not None, "requests to sign in go to the system partition"
        return self._stored

    async def handle(self, request: Request, found: Match) -> Answer:
        """Answer a request; refusals are answers, too."""
        try:
            route = found.resource.route(request)
            answer = self._handlers[route.id](self, request)
            return answer if isinstance(answer, Answer) else await answer
        except DurableSessionsError as error:
            return refusal_at(request.path, error, request.id)

    async def _sign_in(self, request: Request) -> Response:
        is_form = request.headers.get(b"content-type", b"").partition(b";")[0].strip() == FORM.encode()
        secret, following = self._given(request.body) if is_form else (await self._key(request.body), "/")
        if not self._auth.keys_required:
            raise InvalidRequestError(problem="This server has no keys: nobody needs to sign in.")
        self._cookies.require_private(request)
        key = self._keys.find(secret.encode())
        if key is None:
            self._require_pace()
            if is_form:
                return Response(303, [(LOCATION, f"{self._base}/login?plain=1&wrong=1".encode())])
            raise self._auth.unknown_secret(secret.encode(), request.id)
        signed_in, cookie_secret = await self._sign_ins.create(key, request.id.decode())
        publisher = self._keys.publisher
        if publisher is not None:
            await publisher.everywhere()
        cookie = self._cookies.set(request, cookie_secret, self._limits.browser_sign_in_seconds)
        if is_form:
            return Response(303, [(LOCATION, (self._base + following).encode()), cookie])
        return Response(200, [*_JSON, cookie], self._who(signed_in.caller))

    async def _sign_out(self, request: Request) -> Response:
        caller = self._auth.caller(request)
        if caller.key_id is not None:  # whoever is not a browser has nothing to end
            await self._sign_ins.end(caller.key_id, request.id.decode())
        publisher = self._keys.publisher
        if publisher is not None:
            await publisher.everywhere()
        return Response(204, [self._cookies.end(request), (b"Clear-Site-Data", b'"cache"')])

    def _whoami(self, request: Request) -> Response:
        return Response(200, _JSON, self._who(self._auth.caller(request)))

    def _who(self, caller: Caller) -> bytes:
        key: LiveKey | None = None if caller.key_id is None else self._keys.get(caller.key_id)
        is_browser = key is not None and key.document.parent is not None
        operator = self._keys.is_operator(caller)
        may = ["read"]
        may += ["append"] if caller.role >= Role.WRITER else []
        may += ["judge"] if caller.role >= Role.EVALUATOR else []
        may += ["admin", "redact"] if caller.role >= Role.ADMIN else []
        may += ["operate"] if operator else []
        return msgspec.json.encode(
            WhoAnswer(
                caller.workspace,
                caller.principal,
                caller.role.label,
                caller.key_id,
                "local" if caller.key_id is None else "browser" if is_browser else "key",
                self._auth.keys_required,
                operator,
                may,
                __version__,
            )
        )

    async def _key(self, body: bytes) -> str:
        given = await self._parser.parsed(body, decode, body, SignInBody, _SEND, self._limits)
        return given.key[:_KEY_CHARACTERS_MAX]

    @staticmethod
    def _given(body: bytes) -> tuple[str, str]:
        """Return the key in a form, and the page to go to, which is always one of ours."""
        if len(body) > _FORM_BYTES_MAX:
            raise InvalidRequestError(problem="The form is too long; send key and next.")
        try:
            given = parse_qs(body.decode("latin-1"), max_num_fields=8)
        except ValueError:
            raise InvalidRequestError(problem="The form is not usable; send key and next.") from None
        following = given.get("next", ["/"])[0]
        path = following.partition("?")[0].partition("#")[0]
        known = is_address(path.encode("latin-1", "replace")) and "//" not in path and "\\" not in path
        return given.get("key", [""])[0].strip()[:_KEY_CHARACTERS_MAX], following if known else "/"

    def _require_pace(self) -> None:
        """Refuse a wrong key when there were too many; a right one never comes here."""
        if wait_seconds := self._failures.take(self._clock.now_ms()):
            raise SignInsTooFastError(retry_after_seconds=ceil(wait_seconds))

    _handlers: ClassVar[dict[str, Handler]] = ROUTES.complete(
        {"signIn": _sign_in, "signOut": _sign_out, "whoami": _whoami}, "Sign-in"
    )
