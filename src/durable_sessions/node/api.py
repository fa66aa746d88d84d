"""The API of one engine, put together: every face, and what the faces share."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from durable_sessions.http.api.administration import Administration
from durable_sessions.http.api.admission import KeyAdmission
from durable_sessions.http.api.app import Application
from durable_sessions.http.api.artifact_owner import CHANGE as ARTIFACT_CHANGE
from durable_sessions.http.api.artifact_owner import ArtifactOwner
from durable_sessions.http.api.artifact_sweep import NAMED as NAMED_ARTIFACTS
from durable_sessions.http.api.artifact_sweep import ArtifactSweep
from durable_sessions.http.api.artifacts import ArtifactsFace
from durable_sessions.http.api.cursor import Cursors
from durable_sessions.http.api.documentation import Documentation
from durable_sessions.http.api.environment_work import EnvironmentWork
from durable_sessions.http.api.followers import Followers
from durable_sessions.http.api.frame_budget import FrameBudget
from durable_sessions.http.api.health import EngineHealth
from durable_sessions.http.api.ingest import IngestFace
from durable_sessions.http.api.internal import InternalFace
from durable_sessions.http.api.live_readers import LiveReaders
from durable_sessions.http.api.memory_owner import MemoryOwner
from durable_sessions.http.api.memory_reads import READ as READ_MEMORY
from durable_sessions.http.api.memory_reads import MemoryReads
from durable_sessions.http.api.metrics import Metrics
from durable_sessions.http.api.neighbours import Neighbours
from durable_sessions.http.api.operations import Operations
from durable_sessions.http.api.origin import OriginRules
from durable_sessions.http.api.otlp import OtlpFace
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.api.read_throttle import ReadThrottle
from durable_sessions.http.api.reads import Reads
from durable_sessions.http.api.server_status import StatusReport
from durable_sessions.http.api.sessions.approvals import Approvals
from durable_sessions.http.api.sessions.branch_routes import BranchRoutes
from durable_sessions.http.api.sessions.dossier_routes import DossierRoutes
from durable_sessions.http.api.sessions.event_appends import EventAppends
from durable_sessions.http.api.sessions.event_referrers import EventReferrers
from durable_sessions.http.api.sessions.events import Events
from durable_sessions.http.api.sessions.export_routes import ExportRoutes
from durable_sessions.http.api.sessions.files import FileRoutes
from durable_sessions.http.api.sessions.foreign_redactions import REDACT_EVENT, ForeignRedactions
from durable_sessions.http.api.sessions.foreign_trials import TRIALS, ForeignTrials
from durable_sessions.http.api.sessions.graph_directory import GraphDirectory
from durable_sessions.http.api.sessions.graph_routes import GraphRoutes
from durable_sessions.http.api.sessions.live_list import LiveLists
from durable_sessions.http.api.sessions.memories import Memories
from durable_sessions.http.api.sessions.memory import MemoryFace
from durable_sessions.http.api.sessions.memory_versions import MemoryVersions
from durable_sessions.http.api.sessions.new_records import NewRecords
from durable_sessions.http.api.sessions.redactions import Redactions
from durable_sessions.http.api.sessions.registries import Registries
from durable_sessions.http.api.sessions.routes import SessionsFace
from durable_sessions.http.api.sessions.searches import Searches
from durable_sessions.http.api.sessions.session_changes import SessionChangeFeed
from durable_sessions.http.api.sessions.session_streams import SessionStreams
from durable_sessions.http.api.sessions.usages import UsageReports
from durable_sessions.http.api.sessions.work import WorkFace
from durable_sessions.http.api.sessions.work_views import WorkViews
from durable_sessions.http.api.sign_in import SignIn
from durable_sessions.http.api.signing import SigningKeys
from durable_sessions.http.api.streams import StreamsFace
from durable_sessions.http.api.subscriptions import SubscriptionRoutes
from durable_sessions.http.api.tail_exchange import TailExchange
from durable_sessions.http.api.usage_exchange import USAGE, UsageExchange
from durable_sessions.http.api.webhook_urls import Reach
from durable_sessions.http.api.webhooks import WebhookSender
from durable_sessions.log import MeasuredLog
from durable_sessions.managed_agents.agents import AGENTS
from durable_sessions.managed_agents.environments import ENVIRONMENTS
from durable_sessions.managed_agents.files import FILES
from durable_sessions.managed_agents.memory_stores import MEMORY_STORES
from durable_sessions.managed_agents.object_kind import Kind
from durable_sessions.managed_agents.registry import Registry
from durable_sessions.node.access import Access
from durable_sessions.node.disk_space import shortage
from durable_sessions.node.process_parts import ProcessParts
from durable_sessions.search.feed import Feed
from durable_sessions.search.service import Search
from durable_sessions.sessions.dossier.dossiers import Dossiers
from durable_sessions.sessions.dossier.trials import PartitionTrials
from durable_sessions.sessions.memory.stores import Stores
from durable_sessions.sessions.outline.outlines import Outlines
from durable_sessions.sessions.placed_events import PlacedEvents
from durable_sessions.sessions.redactor import EventRedactor
from durable_sessions.sessions.store import Sessions
from durable_sessions.sessions.work import Works
from durable_sessions.storage.artifacts import Artifacts
from durable_sessions.storage.door import BucketControl, Streams
from durable_sessions.storage.subscriptions import SubscriptionManager


@dataclass(frozen=True, slots=True)
class Foundation:
    """The parts of an engine that its API uses."""

    process: ProcessParts
    partition_name: str
    health: EngineHealth
    log: MeasuredLog
    partition: Streams
    bucket: BucketControl
    artifacts: Artifacts
    artifact_owner: ArtifactOwner
    artifact_sweep: ArtifactSweep
    access: Access
    sessions: Sessions
    memory: MemoryOwner
    outlines: Outlines
    feed: Feed
    subscriptions: SubscriptionManager
    webhooks: WebhookSender
    webhook_reach: Callable[[], Reach]
    signing_keys: SigningKeys
    neighbours: Neighbours
    tails: TailExchange | None
    usage: UsageExchange


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
        self._changes = SessionChangeFeed(base.sessions, limits)
        base.partition.listen(self._changes)
        self._search = Search(base.partition, base.feed, self._process.clock, limits)
        self._searches = Searches(base.sessions, self._search, limits)
        self._approvals = Approvals(base.sessions, self._searches)
        self._usages = UsageReports(base.sessions)
        self._memory_reads = MemoryReads(base.memory.scopes, self._search, base.sessions.scans.turns)
        placed = PlacedEvents(base.sessions)
        self._graphs = GraphDirectory(
            placed,
            EventReferrers(base.sessions, placed, self._search),
            base.artifacts,
            base.memory,
            base.neighbours,
        )
        self._artifacts = ArtifactsFace(base.artifacts, self._process.limits, base.access.audit)
        self._registries = self._open_registries()
        trials = PartitionTrials(base.sessions, limits)
        self._redactions = Redactions(
            EventRedactor(base.sessions, self._process.ids, limits),
            base.sessions,
            base.artifacts,
            base.artifact_owner,
            base.access.audit,
            limits,
            self._parser,
        )
        self._foreign_redactions = ForeignRedactions(self._redactions, base.sessions, base.neighbours)
        self._trials = ForeignTrials(trials, base.neighbours, limits)
        self.metrics = Metrics(
            base.partition,
            base.log,
            base.bucket,
            base.artifact_sweep,
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
        self._changes.drain()

    def _application(self, documentation: Documentation) -> Application:
        base, access = self._base, self._base.access
        subscriptions, operations = self._subscription_routes(), self._operations()
        rules = OriginRules(
            hosts=(*self._process.settings.allowed_hosts, self._process.settings.host),
            origins=self._process.settings.allowed_origins,
            public_url=self._process.settings.public_url,
            is_page=documentation.serves,
            is_proven=self._process.first_key.is_proven,
        )
        return Application(
            access.authenticator,
            operations,
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
            self._artifacts,
            IngestFace(base.sessions, base.artifact_owner, self._process.limits, self._parser),
            OtlpFace(
                self._process.limits,
                self._parser,
                keep_unknown=self._process.settings.otlp_unknown == "keep",
                redacts=self._process.settings.otlp_redact,
            ),
            EnvironmentWork(self._process.clock, self._process.limits, self._parser),
            SignIn(
                access.keys,
                access.sign_ins,
                access.authenticator,
                self._process.clock,
                self._process.limits,
                self._parser,
                self._process.settings.public_url,
            ),
            documentation,
            KeyAdmission(access.authenticator, rules, subscriptions, self._process.limits),
            rules,
            self._process.settings.public_url,
            InternalFace(
                base.sessions,
                self._searches,
                self._registries,
                self._changes,
                {
                    **({} if base.tails is None else base.tails.handlers),
                    **base.memory.handlers,
                    READ_MEMORY: self._memory_reads.answer,
                    **self._graphs.handlers,
                    ARTIFACT_CHANGE: base.artifact_owner.answer,
                    NAMED_ARTIFACTS: base.artifact_sweep.answer,
                    USAGE: base.usage.answer,
                    TRIALS: self._trials.answer,
                    REDACT_EVENT: self._foreign_redactions.answer,
                },
                operations,
                base.outlines,
                access.authenticator,
                self._approvals,
                self._usages,
            ),
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
            StatusReport(
                base.partition_name,
                base.partition,
                base.log,
                base.bucket,
                base.feed,
                access.keys,
                self._process.health,
                self._process.clock,
            ),
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
        records = NewRecords(base.sessions, self._registries, self._process.ids, self._process.limits)
        events = Events(
            base.sessions,
            self._searches,
            self._reads,
            self._session_followers,
            self._process.clock,
            self._readers,
            auth,
            self._process.limits,
        )
        stores = Stores(base.memory.scopes, self._process.limits)
        works = Works(base.sessions, self._process.clock, self._process.ids, self._process.limits)
        dossiers = Dossiers(
            base.sessions,
            base.artifacts,
            self._trials,
            self._process.settings.data,
            partial(shortage, self._process.settings.data, self._process.settings.low_space_bytes),
            base.signing_keys.kid,
            base.signing_keys.sign,
            self._process.limits,
        )
        return SessionsFace(
            base.sessions,
            EventAppends(base.sessions, self._process.limits, self._parser, records),
            events,
            self._searches,
            self._registries,
            records,
            auth,
            self._process.ids,
            self._process.limits,
            base.access.audit,
            self._parser,
            self._redactions,
            WorkFace(base.sessions, works, base.artifacts, auth, self._process.limits, self._parser),
            WorkViews(base.sessions, works.contexts, self._searches, self._process.limits),
            BranchRoutes(base.sessions, works.branches, self._process.limits, self._parser),
            DossierRoutes(base.sessions, dossiers, auth, self._process.limits),
            GraphRoutes(base.sessions, self._search, self._graphs),
            self._readers,
            LiveLists(self._changes.follow, self._process.limits),
            base.outlines,
            MemoryFace(base.sessions, base.memory, self._memory_reads, self._process.limits, self._parser),
            Memories(stores, self._store_objects, base.sessions.scans, self._process.limits, self._parser),
            MemoryVersions(
                stores,
                self._store_objects,
                self._foreign_redactions,
                base.access.audit,
                base.sessions.scans,
                self._process.limits,
            ),
            FileRoutes(
                self._file_objects,
                self._artifacts,
                base.sessions.scans,
                base.access.audit,
                self._parser,
                auth,
            ),
            self._approvals,
            self._usages,
            ExportRoutes(base.sessions, auth, self._process.limits),
        )

    def _open_registries(self) -> Registries:
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

        self._store_objects = registry(MEMORY_STORES)
        self._file_objects = registry(FILES)
        kinds = registry(AGENTS), registry(ENVIRONMENTS), self._store_objects
        return Registries(*kinds, base.sessions.scans, base.access.audit, base.neighbours)
