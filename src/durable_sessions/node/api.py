"""The API of one engine, put together: every face, and what the faces share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from durable_sessions.http.api.administration import Administration
from durable_sessions.http.api.admission import KeyAdmission
from durable_sessions.http.api.app import Application
from durable_sessions.http.api.artifacts import ArtifactsFace
from durable_sessions.http.api.cursor import Cursors
from durable_sessions.http.api.documentation import Documentation
from durable_sessions.http.api.followers import Followers
from durable_sessions.http.api.frame_budget import FrameBudget
from durable_sessions.http.api.health import EngineHealth
from durable_sessions.http.api.ingest import IngestFace
from durable_sessions.http.api.internal import InternalFace
from durable_sessions.http.api.live_readers import LiveReaders
from durable_sessions.http.api.metrics import Metrics
from durable_sessions.http.api.operations import Operations
from durable_sessions.http.api.origin import OriginRules
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.api.read_throttle import ReadThrottle
from durable_sessions.http.api.reads import Reads
from durable_sessions.http.api.sessions.events import Events
from durable_sessions.http.api.sessions.registries import Registries
from durable_sessions.http.api.sessions.routes import SessionsFace
from durable_sessions.http.api.sessions.searches import Searches
from durable_sessions.http.api.sessions.session_streams import SessionStreams
from durable_sessions.http.api.signing import SigningKeys
from durable_sessions.http.api.streams import StreamsFace
from durable_sessions.http.api.subscriptions import SubscriptionRoutes
from durable_sessions.http.api.webhook_urls import Reach
from durable_sessions.http.api.webhooks import WebhookSender
from durable_sessions.log.file import FileLog
from durable_sessions.managed_agents.agents import AGENTS
from durable_sessions.managed_agents.environments import ENVIRONMENTS
from durable_sessions.managed_agents.object_kind import Kind
from durable_sessions.managed_agents.registry import Registry
from durable_sessions.node.access import Access
from durable_sessions.node.process_parts import ProcessParts
from durable_sessions.search.feed import Feed
from durable_sessions.search.service import Search
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.artifacts import Artifacts
from durable_sessions.storage.door import BucketControl, Streams
from durable_sessions.storage.subscriptions import SubscriptionManager


@dataclass(frozen=True, slots=True)
class Foundation:
    """The parts of an engine that its API uses."""

    process: ProcessParts
    health: EngineHealth
    log: FileLog
    partition: Streams
    bucket: BucketControl
    artifacts: Artifacts
    access: Access
    sessions: Sessions
    feed: Feed
    subscriptions: SubscriptionManager
    webhooks: WebhookSender
    webhook_reach: Callable[[], Reach]
    signing_keys: SigningKeys


class Api:
    """The application of one engine; ``app`` answers its requests.

    The limits on live readers are shared by all faces, so they are created once: the bytes read per turn, the
    rendered frames kept in memory, and the number of readers.
    """

    def __init__(self, base: Foundation, documentation: Documentation) -> None:
        self._base = base
        self._process = base.process
        limits = self._process.limits
        self._throttle = ReadThrottle(limits.turn_bytes_max)
        self._readers = LiveReaders(limits)
        self._parser = BodyParser(limits)
        frames = FrameBudget(limits.sse_shared_bytes_max)
        self._stream_followers = Followers(base.partition, limits, self._throttle, frames)
        self._session_followers = Followers(base.partition, limits, self._throttle, frames)
        self._reads = Reads(
            base.partition,
            self._stream_followers,
            Cursors(self._process.clock, self._process.ids),
            limits,
            self._throttle,
            self._readers,
            self._process.settings.long_poll_seconds,
        )
        self._search = Search(base.partition, base.feed, self._process.clock, limits)
        self._searches = Searches(base.sessions, self._search, limits)
        self.metrics = Metrics(
            base.partition,
            base.log,
            base.bucket,
            self._stream_followers,
            base.webhooks,
            base.access.authenticator,
            self._search,
            self._process.supervisor,
            self._process.health,
            base.health,
        )
        self.app = self._application(documentation)

    def drain(self) -> None:
        """Let live readers end when they are next woken."""
        self._stream_followers.draining = self._session_followers.draining = True

    def _application(self, documentation: Documentation) -> Application:
        base, access = self._base, self._base.access
        subscriptions = self._subscription_routes()
        rules = OriginRules(
            hosts=(*self._process.settings.allowed_hosts, self._process.settings.host),
            origins=self._process.settings.allowed_origins,
            public_url=self._process.settings.public_url,
            is_page=documentation.serves,
            is_proven=self._process.first_key.is_proven,
        )
        return Application(
            access.authenticator,
            self._operations(),
            Administration(
                access.keys,
                access.key_store,
                access.audit,
                self._process.first_key,
                self._process.clock,
                self._process.limits,
                self._parser,
            ),
            self._streams_face(),
            subscriptions,
            self._sessions_face(),
            ArtifactsFace(base.artifacts, self._process.limits, access.audit),
            IngestFace(base.sessions, base.artifacts, self._process.limits, self._parser),
            documentation,
            KeyAdmission(access.authenticator, rules, subscriptions, self._process.limits),
            rules,
            self._process.settings.public_url,
            InternalFace(base.sessions, self._searches, access.authenticator),
        )

    def _operations(self) -> Operations:
        base, access = self._base, self._base.access
        return Operations(
            base.partition,
            base.bucket,
            self.metrics,
            access.authenticator,
            access.keys,
            access.audit,
            base.feed,
            self._process.supervisor,
            self._process.health,
            base.health,
        )

    def _streams_face(self) -> StreamsFace:
        base = self._base
        return StreamsFace(
            base.partition,
            SessionStreams(base.sessions, self._process.limits, self._parser),
            self._reads,
            base.access.authenticator,
            self._process.limits,
            self._process.settings.public_url,
            base.access.audit,
            self._parser,
        )

    def _subscription_routes(self) -> SubscriptionRoutes:
        base = self._base
        return SubscriptionRoutes(
            base.subscriptions,
            base.access.authenticator,
            base.signing_keys,
            self._process.clock,
            self._process.limits,
            base.webhook_reach,
            base.access.audit,
            self._parser,
        )

    def _sessions_face(self) -> SessionsFace:
        base, auth = self._base, self._base.access.authenticator
        events = Events(
            base.sessions,
            self._searches,
            self._reads,
            self._session_followers,
            self._process.clock,
            self._readers,
            auth,
            self._process.limits,
            self._parser,
        )
        return SessionsFace(
            base.sessions,
            events,
            self._searches,
            self._registries(),
            auth,
            self._process.ids,
            self._process.limits,
            base.access.audit,
            self._parser,
        )

    def _registries(self) -> Registries:
        base = self._base

        def registry(kind: Kind[Any]) -> Registry:
            return Registry(
                base.partition,
                self._process.clock,
                self._process.ids,
                self._process.limits,
                base.sessions.scans.turns,
                kind,
            )

        return Registries(registry(AGENTS), registry(ENVIRONMENTS), base.sessions.scans, base.access.audit)
