"""The application: authenticates every request and dispatches it to the part that answers it."""

from collections.abc import Awaitable

from durable_sessions.access.caller import Caller
from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.api import cors
from durable_sessions.http.api.administration import Administration
from durable_sessions.http.api.artifacts import ALLOW as ARTIFACT_METHODS
from durable_sessions.http.api.artifacts import ArtifactsFace
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.http.api.documentation import Documentation
from durable_sessions.http.api.environment_work import EnvironmentWork
from durable_sessions.http.api.error_responses import refusal_at
from durable_sessions.http.api.errors import error_response
from durable_sessions.http.api.fast_appends import FastAppends
from durable_sessions.http.api.headers import base_url
from durable_sessions.http.api.ingest import ALLOW as INGEST_METHODS
from durable_sessions.http.api.ingest import IngestFace
from durable_sessions.http.api.internal import ROOT as INTERNAL_ROOT
from durable_sessions.http.api.internal import InternalFace
from durable_sessions.http.api.operations import Operations
from durable_sessions.http.api.origin import OriginRules
from durable_sessions.http.api.otlp import ALLOW as OTLP_METHODS
from durable_sessions.http.api.otlp import Dispatch, OtlpFace
from durable_sessions.http.api.route_table import ROUTES, Match, unknown_route
from durable_sessions.http.api.sessions.dialect import is_strict
from durable_sessions.http.api.sessions.errors import refusal
from durable_sessions.http.api.sessions.live_list import LiveLists
from durable_sessions.http.api.sessions.routes import SessionsFace
from durable_sessions.http.api.sign_in import SignIn
from durable_sessions.http.api.streams import ALLOW as STREAM_METHODS
from durable_sessions.http.api.streams import StreamsFace
from durable_sessions.http.api.subscriptions import SubscriptionRoutes
from durable_sessions.http.carrier.message import Admission, Answer, Request, Response, StreamingResponse
from durable_sessions.http.paths import (
    SIGN_IN,
    STREAM_ROOT,
    checks_parameters,
    is_of_control,
    is_of_environment_work,
)

_DATA_ROOT = b"/v1/"
_VAULTS = b"/v1/vaults"
"""What Managed Agents keeps secrets in; refused with a reason, since its SDKs know it."""
_NO_VAULTS = (
    ": vaults are not kept, because what a server of logs can read, its backups hold, too. Keep secrets "
    "where the agent runs, in a secret manager or in the environment of its sandbox, and let events name "
    "them, not hold them"
)
ROUTES.complete({**Operations.handlers, **Documentation.handlers}, "Operations")


class Application:
    """A ``Handler`` that dispatches authenticated requests by path."""

    def __init__(
        self,
        auth: Authenticator,
        operations: Operations,
        administration: Administration,
        streams: StreamsFace,
        subscriptions: SubscriptionRoutes,
        sessions: SessionsFace,
        artifacts: ArtifactsFace,
        ingest: IngestFace,
        otlp: OtlpFace,
        environment_work: EnvironmentWork,
        sign_in: SignIn,
        documentation: Documentation,
        admission: Admission,
        rules: OriginRules,
        public_url: str,
        internal: InternalFace,
    ) -> None:
        self._internal = internal
        self._rules = rules
        self._auth = auth
        self._administration = administration
        self._artifacts = artifacts
        self._ingest = ingest
        self._otlp = otlp
        self._environment_work = environment_work
        self._sign_in = sign_in
        self._documentation = documentation
        self._streams = streams
        self._subscriptions = subscriptions
        self._sessions = sessions
        self._public_url = public_url
        self.operations = operations
        self.fast_appends = FastAppends(auth, rules, streams, sessions)
        self.admission = admission

    @property
    def closed(self) -> DurableSessionsError | None:
        """Why nothing is answered now but health requests; None if everything is."""
        return self.fast_appends.closed

    @closed.setter
    def closed(self, error: DurableSessionsError | None) -> None:
        self.fast_appends.closed = error

    def body_limit(self, request: Request) -> int:
        """Return how large the body of a request may be, given its head, or refuse it."""
        return self.admission.admit(request).body_bytes_max

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request, synchronously where possible; while ``closed``, only health requests.

        One that already has a caller came in through :meth:`enter`, here or in another process.
        """
        if request.caller is None:
            try:
                preflight = self._rules.admit(request, keyed=self._auth.keys_required)
            except DurableSessionsError as error:
                return refusal_at(request.path, error, request.id)
            if preflight is not None:
                return preflight
        try:
            if request.path.startswith(_DATA_ROOT):
                if self.closed is not None:
                    raise self.closed
                self.operations.require_writer()
            if request.path.startswith(STREAM_ROOT):
                if is_of_control(request.path):
                    return self._control(request)
                if request.method == b"OPTIONS":
                    return cors.preflight(STREAM_METHODS)
                return self._streams.handle(request, self._auth.caller(request))
            return self._other(request)
        except DurableSessionsError as error:
            # Anthropic's SDKs know more routes than we serve; they get an error in a shape they understand.
            return (
                refusal(error, request) if is_strict(request) else refusal_at(request.path, error, request.id)
            )

    # Before a request is routed ---------------------------------------------------------

    def enter(self, request: Request) -> Response | None:
        """Check the origin of a request and authenticate it; return the answer if it goes no further.

        A request whose operation needs no key, or another proof, goes on without a caller.
        """
        # The origin comes first: browsers send no key with a preflight, and a page that is not allowed here
        # must not learn whether a key is valid.
        try:
            preflight = self._rules.admit(request, keyed=self._auth.keys_known)
            if preflight is None and self._is_keyed(request):
                self._auth.caller(request)
        except DurableSessionsError as error:
            return self.refuse(request, error)
        return preflight

    def awaits_proof(self, request: Request) -> bool:
        """Say whether a request needs a key, and the table of keys must be confirmed first."""
        proof = self._auth.proof
        return proof is not None and not proof.is_fresh() and self._is_keyed(request)

    async def renew_proof(self) -> None:
        """Try to have the table of keys confirmed."""
        await self._auth.renew_proof()

    def workspace_of(self, request: Request) -> str | None:
        """Return whose data an admitted request is about, None if nobody's."""
        if isinstance(request.caller, Caller):
            return request.caller.workspace
        try:
            return self._subscriptions.token_workspace(request) if is_of_control(request.path) else None
        except DurableSessionsError:
            return None  # whoever is asked refuses the token

    def refuse(self, request: Request, error: DurableSessionsError) -> Response:
        """Return the answer for an error that has nothing to do with any stored data."""
        if is_of_control(request.path):
            return error_response(error, control=True)
        if is_strict(request) or self._sessions.serves(request.path):
            return refusal(error, request)
        return refusal_at(request.path, error, request.id)

    def refuse_parameters(self, request: Request) -> Response | None:
        """Return the refusal of a request with a parameter that its operation does not have."""
        try:
            _check_parameters(request)
        except DurableSessionsError as error:
            return self.refuse(request, error)
        return None

    def follow_sessions(self, request: Request, lists: LiveLists) -> Awaitable[Answer]:
        """Follow the sessions of all partitions, for a router."""
        return self._sessions.follow_list(request, lists)

    def answer_router(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request that a router passes on or makes; only routers may call this."""
        if not request.path.startswith(INTERNAL_ROOT):
            return self(request)
        if self.closed is not None:
            return refusal(self.closed, request)
        return self._internal.handle(request)

    def _is_keyed(self, request: Request) -> bool:
        path = request.path
        if request.method == b"OPTIONS" or not path.startswith(_DATA_ROOT):
            return False
        if path == SIGN_IN and request.method == b"POST":
            return False
        return not is_of_control(path) or self._subscriptions.is_keyed(request)

    def _other(self, request: Request) -> Answer | Awaitable[Answer]:
        _check_parameters(request)
        if is_of_environment_work(request.path) and request.method != b"OPTIONS":
            return self.answer_in_parts(request, self._ask)
        if self._sessions.serves(request.path):
            return self._sessions.handle(request)
        if request.path == _VAULTS or request.path.startswith(_VAULTS + b"/"):
            self._auth.caller(request)
            raise unknown_route(request.path, _VAULTS.decode() + _NO_VAULTS)
        found = ROUTES.find(request.path)
        noun = None if found is None else found.resource.noun
        if found is not None and noun == "Artifacts":
            if request.method == b"OPTIONS":
                return cors.preflight(ARTIFACT_METHODS)
            return _answered(self._artifact(request, self._auth.caller(request), found), request)
        if found is not None and noun == "Ingest":
            if request.method == b"OPTIONS":
                return cors.preflight(INGEST_METHODS)
            return _answered(self._ingest.handle(request, self._auth.caller(request), found), request)
        if found is not None and noun == "OpenTelemetry":
            if request.method == b"OPTIONS":
                return cors.preflight(OTLP_METHODS)
            return self.answer_in_parts(request, self._ask)
        if found is not None and noun == "Keys and audit":
            return _answered(self._administration.handle(request, self._auth.caller(request), found), request)
        if found is not None and noun == "Sign-in":
            return self._sign_in.handle(request, found)
        if self._documentation.serves(request.path):
            return self._documentation.handle(request, found)
        return self.operations.handle(request, found)

    def answer_in_parts(self, request: Request, dispatch: Dispatch) -> Awaitable[Answer]:
        """Answer a request that is several requests to sessions: an export of telemetry, or work."""
        return _answered(self._in_parts(request, dispatch), request)

    async def _in_parts(self, request: Request, dispatch: Dispatch) -> Answer:
        caller = self._auth.caller(request)
        found = ROUTES.find(request.path)
        if found is None:
            raise unknown_route(request.path)
        face = self._otlp if found.resource.noun == "OpenTelemetry" else self._environment_work
        return await face.handle(request, caller, found, dispatch)

    async def _ask(self, request: Request) -> Answer:
        answer = self(request)
        return answer if isinstance(answer, Answer) else await answer

    async def _artifact(self, request: Request, caller: Caller, found: Match) -> Answer:
        answer = await self._artifacts.handle(request, caller, found)
        if isinstance(answer, StreamingResponse):
            answer.chunks = self._auth.while_valid(caller, answer.chunks, whole=True)
        return answer

    async def _control(self, request: Request) -> Answer:
        try:
            return await self._subscriptions.handle(request, base_url(request, self._public_url))
        except DurableSessionsError as error:
            return error_response(error, control=True)


async def _answered(answer: Awaitable[Answer], request: Request) -> Answer:
    """Await an answer; a refusal that is raised becomes one."""
    try:
        return await answer
    except DurableSessionsError as error:
        return refusal_at(request.path, error, request.id)


def _check_parameters(request: Request) -> None:
    if request.query and checks_parameters(request.path) and not is_strict(request):
        ROUTES.check_parameters(request)
