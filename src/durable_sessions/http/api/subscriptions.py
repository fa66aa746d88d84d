"""The subscription routes of the protocol, below ``/v1/stream/__ds/``."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec

from durable_sessions.access.audit import Audit
from durable_sessions.clock import Clock
from durable_sessions.errors import (
    InvalidRequestError,
    TokenInvalidError,
)
from durable_sessions.http.api import cors
from durable_sessions.http.api import subscription_bodies as bodies
from durable_sessions.http.api.auth import Authenticator, Caller, Role
from durable_sessions.http.api.deletions import deletion
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.api.route_table import ROUTES, Handler, Match, unknown_route
from durable_sessions.http.api.signing import SigningKeys
from durable_sessions.http.api.webhook_urls import Reach
from durable_sessions.http.bodies.subscriptions import (
    ClaimAnswer,
    ClaimBody,
    Held,
    HoldBody,
    ShownLink,
    ShownSubscription,
    ShownWebhook,
)
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.http.openapi.request_headers import AUTHORIZATION
from durable_sessions.http.paths import stream_path
from durable_sessions.limits import Limits
from durable_sessions.shares import CURRENT_HOLDER
from durable_sessions.storage.subscriptions import SubscriptionManager, SubscriptionView
from durable_sessions.streams.subscriptions import Kind, SubscriptionKey
from durable_sessions.streams.wakes import Hold
from durable_sessions.threads import CPU
from durable_sessions.times import rfc3339

_AUTHORIZATION = AUTHORIZATION.key
_JSON: list[Header] = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")]
_JWKS: list[Header] = [
    (b"Content-Type", b"application/jwk-set+json"),
    (b"Cache-Control", b"public, max-age=300"),
]
_NOUN = "Subscriptions"
_SHOWN_AT_ONCE = 1_000
_HOLD = "a JSON object with wake_id and generation as they were given"


class SubscriptionRoutes:
    """Answers requests about subscriptions; refusals are raised."""

    def __init__(
        self,
        manager: SubscriptionManager,
        auth: Authenticator,
        signing_keys: SigningKeys,
        clock: Clock,
        limits: Limits,
        reach: Callable[[], Reach],
        audit: Audit,
        parser: BodyParser,
    ) -> None:
        self._parser = parser
        self._reach = reach
        self._audit = audit
        self._manager = manager
        self._auth = auth
        self._signing_keys = signing_keys
        self._clock = clock
        self._limits = limits

    async def handle(self, request: Request, base_url: str) -> Answer:
        """Answer a request below the control root."""
        found = _found(request)
        caller, workspace = self._caller(request, found)
        if found is None or "" in found.values[:1]:
            raise unknown_route(request.path)
        key = SubscriptionKey(workspace, self._id(found.values[0])) if found.values else None
        if request.method == b"OPTIONS":
            return cors.preflight(found.resource.allow or "")
        route = found.resource.route(request)
        answer = self._handlers[route.id](self, request, key, _Call(caller, base_url, found.values[1:]))
        return answer if isinstance(answer, Answer) else await answer

    def _show_signing_keys(self, request: Request, _: None, call: "_Call") -> Response:
        return Response(200, _JWKS, self._signing_keys.jwks)

    def _caller(self, request: Request, found: Match | None) -> tuple[Caller | None, str]:
        """Return the caller, if the request has a key, and the workspace."""
        if request.method == b"OPTIONS" or (found is not None and not found.values):
            return None, ""  # preflights have no key, and the public signing keys are public
        if found is not None and _is_held(found):
            return None, self._holder_workspace(request, found.values[0])
        caller = self._auth.caller(request)
        caller.require(Role.READER if request.method in (b"GET", b"HEAD") else Role.WRITER)
        return caller, caller.workspace

    def is_keyed(self, request: Request) -> bool:
        """Say whether a request needs a key: not for the public signing keys, nor with a wake's token."""
        found = _found(request)
        if found is None or not found.values:
            return found is None
        return not self._auth.keys_required or not _is_held(found) or b"x-api-key" in request.headers

    def token_workspace(self, request: Request) -> str | None:
        """Return the workspace of a wake's token, or refuse an invalid one; None where a key is required."""
        found = _found(request)
        if found is not None and _is_held(found) and b"x-api-key" not in request.headers:
            return self._holder_workspace(request, found.values[0])
        return None

    def _holder_workspace(self, request: Request, name: str) -> str:
        """Return the workspace of the holder of a wake, for which the token of the wake is enough.

        Authorization contains that token, so a key, which is optional here, would be in ``x-api-key``.
        """
        if self._auth.keys_required and b"x-api-key" not in request.headers:
            return self._signing_keys.workspace(_bearer(request), self._id(name), self._now_seconds())
        caller = self._auth.caller(request)
        caller.require(Role.WRITER)
        return caller.workspace

    async def _put(self, request: Request, key: SubscriptionKey, call: "_Call") -> Response:
        body, reach = request.body, self._reach()
        asked = await self._parser.parsed(
            body, bodies.subscribe_request, body, call.base_url, self._limits, reach
        )
        new, view = await self._manager.create(key, asked)
        return await self._show(view, call.base_url, 201 if new else 200)

    async def _get(self, request: Request, key: SubscriptionKey, call: "_Call") -> Response:
        return await self._show(await self._manager.get(key), call.base_url)

    async def _delete(self, request: Request, key: SubscriptionKey, call: "_Call") -> Response:
        assert call.caller is not None, "only who has a token comes without a key"
        act = self._audit.beside(deletion(call.caller, request, "subscription", key.id))
        await self._manager.delete(key, act)
        act.log()
        return Response(204, [])

    async def _unlink(self, request: Request, key: SubscriptionKey, call: "_Call") -> Response:
        (path,) = call.below
        await self._manager.unlink(key, stream_path(path.strip("/").encode("latin-1")))
        return Response(204, [])

    async def _link(self, request: Request, key: SubscriptionKey, call: "_Call") -> Response:
        paths = await self._parser.parsed(request.body, bodies.streams_request, request.body, self._limits)
        await self._manager.link(key, paths)
        return Response(204, [])

    async def _callback(self, request: Request, key: SubscriptionKey, call: "_Call") -> Response:
        hold, body = await self._held(request, key, "webhook")
        acks = bodies.acks_of(body, self._limits)
        next_wake = await self._manager.callback(key, hold, acks, done=body.done is True)
        return _json(Held(ok=True, next_wake=next_wake))

    async def _ack(self, request: Request, key: SubscriptionKey, call: "_Call") -> Response:
        hold, body = await self._held(request, key, "pull-wake")
        acks = bodies.acks_of(body, self._limits)
        next_wake = await self._manager.ack(key, hold, acks, done=body.done is True)
        return _json(Held(ok=True, next_wake=next_wake))

    async def _release(self, request: Request, key: SubscriptionKey, call: "_Call") -> Response:
        hold, _ = await self._held(request, key, "pull-wake")
        await self._manager.release(key, hold)
        return Response(204, [])

    async def _claim(self, request: Request, key: SubscriptionKey, call: "_Call") -> Response:
        send = "a JSON object with worker, a name of your choice"
        body = await self._parser.parsed(
            request.body, bodies.decode, request.body, ClaimBody, send, self._limits
        )
        claim = await self._manager.claim(key, bodies.text(body.worker, "worker", self._limits))
        expires_at_seconds = self._now_seconds() + self._limits.token_seconds_max
        return _json(
            ClaimAnswer(
                claim.wake_id,
                claim.generation,
                self._signing_keys.issue_token(key, claim.generation, expires_at_seconds),
                claim.streams,
                claim.lease_ttl_ms,
            )
        )

    async def _held(self, request: Request, key: SubscriptionKey, kind: Kind) -> tuple[Hold, HoldBody]:
        """Return the client's proof that it holds a wake; its token is checked first."""
        await self._manager.require_kind(key, kind)
        # Before the body is read: whoever has no token must not make the server parse what they send.
        token_generation = self._signing_keys.check_token(_bearer(request), key, self._now_seconds())
        CURRENT_HOLDER.set(f"workspace {key.workspace}")
        body = await self._parser.parsed(
            request.body, bodies.decode, request.body, HoldBody, _HOLD, self._limits
        )
        return Hold(body.wake_id, body.generation, token_generation), body

    async def _show(self, view: SubscriptionView, base_url: str, status: int = 200) -> Response:
        """Answer with a subscription; a long one is encoded in a thread."""
        if len(view.streams) <= _SHOWN_AT_ONCE:
            return _json(self._shown(view, base_url), status)
        return await CPU.run(lambda: _json(self._shown(view, base_url), status))

    def _shown(self, view: SubscriptionView, base_url: str) -> ShownSubscription:
        config = view.config
        return ShownSubscription(
            id=view.key.id,
            subscription_id=view.key.id,
            type=config.type,
            pattern=config.pattern,
            streams=[ShownLink(one.path, one.link_type, one.acked_offset) for one in view.streams],
            webhook=self._webhook(config.webhook_url, base_url) if config.webhook_url else None,
            wake_stream=config.wake_stream,
            lease_ttl_ms=config.lease_ttl_ms,
            created_at=rfc3339(view.created_at_ms),
            status="failed" if view.failed else "active",
            description=config.description,
        )

    def _webhook(self, url: str, base_url: str) -> ShownWebhook:
        jwks_url = base_url + "/v1/stream/__ds/jwks.json"
        return ShownWebhook(url, {"alg": "ed25519", "kid": self._signing_keys.kid, "jwks_url": jwks_url})

    def _id(self, encoded: str) -> str:
        try:
            name = unquote_to_bytes(encoded).decode()
        except UnicodeDecodeError:
            raise InvalidRequestError(problem="The subscription's id is not UTF-8.") from None
        if not name.isprintable():
            raise InvalidRequestError(problem="The subscription's id holds a control character.")
        return bodies.text(name, "The subscription's id", self._limits)

    def _now_seconds(self) -> int:
        return self._clock.now_ms() // 1000

    _handlers: ClassVar[dict[str, Handler]] = ROUTES.complete(
        {
            "putSubscription": _put,
            "getSubscription": _get,
            "deleteSubscription": _delete,
            "linkStreams": _link,
            "unlinkStream": _unlink,
            "claimWake": _claim,
            "ackWake": _ack,
            "releaseWake": _release,
            "callbackWake": _callback,
            "getSigningKeys": _show_signing_keys,
        },
        _NOUN,
    )


class _Call(NamedTuple):
    """The caller, if there is a key, the base URL of the server, and the rest of the path."""

    caller: Caller | None
    base_url: str
    below: tuple[str, ...]


def _found(request: Request) -> Match | None:
    """Return the resource at a path below the control root, undecoded: ids and paths are decoded strictly."""
    found = ROUTES.find(request.path, escaped=True)
    return None if found is None or found.resource.noun != _NOUN else found


def _is_held(found: Match) -> bool:
    """Say whether the token of a wake is enough, so that no key is needed."""
    return bool(found.values) and all(route.keyless for route in found.resource.methods.values())


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get(_AUTHORIZATION, b"").decode("latin-1").partition(" ")
    if scheme.lower() != "bearer":
        raise TokenInvalidError
    return token.strip()


def _json(body: object, status: int = 200) -> Response:
    return Response(status, _JSON, msgspec.json.encode(body))
