"""Administration over HTTP: the keys of a workspace, and its audit record."""

import re
from typing import ClassVar
from urllib.parse import parse_qsl

import msgspec

from durable_sessions.access.audit import Audit
from durable_sessions.access.caller import ROLES
from durable_sessions.access.key import LiveKey
from durable_sessions.access.key_store import KeyStore, NewKey
from durable_sessions.access.key_table import KeyTable
from durable_sessions.clock import Clock
from durable_sessions.errors import (
    DurableSessionsError,
    FirstKeyRefusedError,
    ForbiddenError,
    InvalidKeyError,
    InvalidRequestError,
    KeyNotFoundError,
)
from durable_sessions.http.api.auth import Caller, Role
from durable_sessions.http.api.first_key import FirstKey
from durable_sessions.http.api.json_body import Expected, decode
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.api.route_table import ROUTES, Handler, Match, unknown_route
from durable_sessions.http.bodies.keys import CreatedKey, KeyAnswer, NewKeyBody, RevokedKey
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.http.openapi.keys import LIMIT, ORDER
from durable_sessions.limits import Limits
from durable_sessions.setting_values import WORKSPACE_NAME
from durable_sessions.times import parse_rfc3339, rfc3339

_JSON: list[Header] = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")]
_SEND = 'a JSON object with principal, a name, and role, one of "reader", "writer", "evaluator", "admin"'
_KEY = Expected("A key", InvalidKeyError, f"Send {_SEND}.")
_PAGE = re.compile(r"([ad])(\d{1,15})")


class Administration:
    """Answers requests about keys and the audit record; refusals are recorded as well.

    Preflights are not answered, so no web page of another origin can manage keys.
    """

    def __init__(
        self,
        keys: KeyTable,
        store: KeyStore | None,
        audit: Audit,
        first_key: FirstKey,
        clock: Clock,
        limits: Limits,
        parser: BodyParser,
    ) -> None:
        self._parser = parser
        self._keys = keys
        self._stored = store
        self._first_key = first_key
        self._clock = clock
        self._audit = audit
        self._limits = limits
        self._page_limit = LIMIT.within(limits)

    @property
    def _store(self) -> KeyStore:
        """The store of the keys, which only the system partition has: these requests are routed there."""
        assert self._stored is not None, "requests about keys go to the system partition"
        return self._stored

    async def handle(self, request: Request, caller: Caller, found: Match) -> Answer:
        """Answer a request; refusals are raised."""
        try:
            caller.require(Role.ADMIN)
            return await self._act(request, caller, found)
        except (ForbiddenError, FirstKeyRefusedError, KeyNotFoundError) as error:
            asked = b" ".join((request.method, request.path.split(b"/", 3)[2])).decode("latin-1")
            self._audit.refused(caller, asked, error, _id(request))
            raise

    async def _act(self, request: Request, caller: Caller, found: Match) -> Answer:
        if "" in found.values:
            raise unknown_route(request.path)
        route = found.resource.route(request)
        answer = self._handlers[route.id](self, request, caller, *found.values)
        return answer if isinstance(answer, Answer) else await answer

    async def _revoke(self, request: Request, caller: Caller, key_id: str) -> Response:
        key = await self._store.revoke(caller, key_id, _id(request))
        return _json(RevokedKey(**msgspec.structs.asdict(_shown(key)), everywhere=await self._everywhere()))

    async def _create(self, request: Request, caller: Caller) -> Response:
        content_type = request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if content_type != b"application/json":
            raise InvalidKeyError(problem=f"Send Content-Type: application/json and {_SEND}.")
        body = await self._parser.parsed(request.body, decode, request.body, NewKeyBody, _KEY, self._limits)
        wanted = NewKey(
            _workspace(caller.workspace if body.workspace is None else body.workspace),
            self._principal(body.principal),
            _role(body.role),
            self._rate(body.requests_per_second),
            self._expiry(body.expires_at),
        )
        # Do not ask whether keys are required by now: this caller was admitted without one.
        if caller.key_id is None:
            key, secret = await self._create_first(caller, wanted, request)
        else:
            key, secret = await self._store.create(caller, wanted, _id(request))
        shown = msgspec.structs.asdict(_shown(key))
        return _json(CreatedKey(**shown, secret=secret, everywhere=await self._everywhere()), 201)

    async def _everywhere(self) -> bool | msgspec.UnsetType:
        """Say whether all workers know the last change of the keys; nothing if there is only one."""
        known = await self._store.everywhere()
        return msgspec.UNSET if known is None else known

    async def _create_first(self, caller: Caller, wanted: NewKey, request: Request) -> tuple[LiveKey, str]:
        self._first_key.take(request)
        try:
            made = await self._store.create(caller, wanted, _id(request))
        except DurableSessionsError:
            self._first_key.give_back()
            raise
        self._first_key.withdraw()
        return made

    def _expiry(self, text: str | None) -> int | None:
        """Return when a key expires; a time in the past is refused."""
        if text is None:
            return None
        at_ms = parse_rfc3339(text)
        if at_ms is None:
            raise InvalidKeyError(
                problem="expires_at is not usable; send an RFC 3339 time such as 2030-01-31T12:00:00Z."
            )
        if at_ms <= self._clock.now_ms():
            raise InvalidKeyError(
                problem="expires_at has passed; send a time to come, or leave it out for a key without end."
            )
        return at_ms

    def _list(self, request: Request, caller: Caller) -> Response:
        given = _parameters(request)
        limit = self._limit(given)
        keys = self._keys.visible(caller)
        if "page" in given:
            after = next((at for at, key in enumerate(keys) if key.document.id == given["page"]), None)
            if after is None:
                raise InvalidRequestError(problem="page is not usable; send next_page as it was given.")
            keys = keys[after + 1 :]
        data: list[msgspec.Raw] = []
        size = 0
        for key in keys[:limit]:
            shown = msgspec.json.encode(_shown(key))
            size += len(shown)
            if data and size > self._limits.page_bytes_max:
                break
            data.append(msgspec.Raw(shown))
        following = keys[len(data) - 1].document.id if len(keys) > len(data) else None
        return _json({"data": data, "next_page": following})

    async def _read_audit(self, request: Request, caller: Caller) -> Response:
        given = _parameters(request)
        order = given.get(ORDER.name, ORDER.default)
        if order not in ORDER.schema["enum"]:
            raise InvalidRequestError(
                problem=f"order is not usable; send {' or '.join(ORDER.schema['enum'])}."
            )
        start: int | None = None
        if "page" in given:
            found = _PAGE.fullmatch(given["page"])
            if found is None or found[1] != order[0]:
                raise InvalidRequestError(
                    problem="page is not usable; send next_page as it was given, with the same order."
                )
            start = int(found[2])
        page = await self._audit.page(
            caller.workspace, start, self._limit(given), newest_first=order == "desc"
        )
        following = None if page.following is None else f"{order[0]}{page.following}"
        return _json({"data": page.acts, "next_page": following})

    def _limit(self, given: dict[str, str]) -> int:
        least, most = self._page_limit.schema["minimum"], self._page_limit.schema["maximum"]
        text = given.get(self._page_limit.name, str(self._page_limit.default))
        if not text.isascii() or not text.isdigit() or len(text) > 9 or not least <= int(text) <= most:
            raise InvalidRequestError(
                problem=f"limit is not usable; send a whole number from {least} to {most}."
            )
        return int(text)

    def _principal(self, name: str) -> str:
        most = self._limits.principal_characters_max
        if not 1 <= len(name) <= most or not name.isprintable() or name != name.strip():
            raise InvalidKeyError(
                problem=f"principal is not usable; send a name of 1 to {most} printable characters."
            )
        return name

    def _rate(self, per_second: float | None) -> float | None:
        most = self._limits.key_requests_per_second_max
        if per_second is not None and not 0 < per_second <= most:
            raise InvalidKeyError(
                problem=f"requests_per_second is not usable; send a number above 0, up to {most}, or none."
            )
        return per_second

    _handlers: ClassVar[dict[str, Handler]] = ROUTES.complete(
        {"createKey": _create, "listKeys": _list, "revokeKey": _revoke, "readAudit": _read_audit},
        "Keys and audit",
    )


def _id(request: Request) -> str:
    return request.id.decode()


def _parameters(request: Request) -> dict[str, str]:
    return dict(parse_qsl(request.query.decode("latin-1")))


def _workspace(name: str) -> str:
    if WORKSPACE_NAME.fullmatch(name) is None:
        raise InvalidKeyError(
            problem="workspace is not usable; send 1 to 63 of a-z, 0-9, dot, hyphen and underscore, "
            "beginning with a letter or digit."
        )
    return name


def _role(name: str) -> Role:
    if name not in ROLES:
        raise InvalidKeyError(problem=f"role is not usable; send one of {', '.join(ROLES)}.")
    return ROLES[name]


def _shown(key: LiveKey) -> KeyAnswer:
    document = key.document
    return KeyAnswer(
        document.id,
        document.workspace,
        document.principal,
        document.role,
        document.requests_per_second,
        _time(document.expires_at_ms),
        rfc3339(document.created_at_ms),
        document.created_by,
        _time(key.last_used_ms),
        _time(document.revoked_at_ms),
        document.revoked_by,
        document.parent,
    )


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else rfc3339(at_ms)


def _json(body: object, status: int = 200) -> Response:
    return Response(status, _JSON, msgspec.json.encode(body))
