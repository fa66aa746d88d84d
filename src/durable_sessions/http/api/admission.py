"""Admission by the head of a request, before any of its body is kept in memory."""

from durable_sessions.access.caller import Role
from durable_sessions.http.api.artifacts import ROOT as ARTIFACT_ROOT
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.http.api.ingest import ROOT as INGEST_ROOT
from durable_sessions.http.api.origin import OriginRules
from durable_sessions.http.api.sessions.files import ROOT as FILES
from durable_sessions.http.api.subscriptions import SubscriptionRoutes
from durable_sessions.http.carrier.message import KEYLESS, Admitted, Request
from durable_sessions.http.paths import SIGN_IN, STREAM_ROOT, is_of_control, is_of_sessions
from durable_sessions.limits import Limits

_READING = (b"GET", b"HEAD", b"OPTIONS")
_KEYED = b"/v1/"


class KeyAdmission:
    """Refuses early what would be refused later: a foreign origin, an unknown key, an insufficient role."""

    def __init__(
        self, auth: Authenticator, rules: OriginRules, subscriptions: SubscriptionRoutes, limits: Limits
    ) -> None:
        self._auth = auth
        self._rules = rules
        self._subscriptions = subscriptions
        self._limits = limits

    @property
    def keys_required(self) -> bool:
        """Whether a request needs a key."""
        return self._auth.keys_required

    def holder(self, request: Request) -> str | None:
        """Return the holder that a request is counted for; this counts and refuses nothing."""
        return (self._auth.key_id(request) or KEYLESS) if self._auth.keys_known else None

    def admit(self, request: Request) -> Admitted:
        """Return the holder of a request and how large its body may be, or raise the refusal."""
        self._rules.admit(request, keyed=self._auth.keys_required)
        limits = self._limits
        body_bytes_max = limits.append_body_bytes_max
        is_artifact = request.method == b"PUT" and request.path.startswith(ARTIFACT_ROOT)
        if is_artifact or (request.method == b"POST" and request.path == FILES):
            body_bytes_max = max(limits.artifact_bytes_max, body_bytes_max)
        if not self._auth.keys_required:
            return Admitted(None, body_bytes_max)
        is_sign_in = request.path == SIGN_IN and request.method == b"POST"
        if request.method == b"OPTIONS" or not request.path.startswith(_KEYED) or is_sign_in:
            return Admitted(KEYLESS, min(limits.keyless_body_bytes_max, body_bytes_max))
        if is_of_control(request.path):
            workspace = self._subscriptions.token_workspace(request)
            if workspace is not None:
                return Admitted(f"workspace {workspace}", body_bytes_max)
        caller = self._auth.recognised(request)
        if request.method not in _READING and _is_data(request.path):
            caller.require(Role.WRITER)
        return Admitted(caller.key_id, body_bytes_max)


def _is_data(path: bytes) -> bool:
    """Say whether every change below a path needs a writer's key, and refusals there are not audited."""
    return path.startswith((STREAM_ROOT, ARTIFACT_ROOT, INGEST_ROOT)) or is_of_sessions(path)
