"""What is asked of every route to see how long it holds the event loop: the most that clients may ask."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from durable_sessions.limits import DEFAULT_LIMITS, KIB, MIB
from tests.hostile.herd import ARTIFACT, ARTIFACT_DIGEST

_JSON = {"Content-Type": "application/json"}
_LONG = "/v1/sessions/long"
_SUBSCRIPTION = "/v1/stream/__ds/subscriptions"
_BODY_BYTES = 8 * MIB - 64 * KIB


@dataclass(frozen=True, slots=True)
class Trial:
    """One request; ``{names}`` in it are replaced by ids that the server gave.

    Only ``take_bytes`` of a streamed answer are read. ``times`` are sent at once.
    """

    method: str
    target: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: _JSON)
    take_bytes: int | None = None
    times: int = 1


def _get(*targets: str, **options: object) -> list[Trial]:
    return [Trial("GET", target, **options) for target in targets]  # type: ignore[arg-type]


def _post(target: str, *bodies: bytes, method: str = "POST", **options: object) -> list[Trial]:
    return [Trial(method, target, body, **options) for body in bodies or (b"{}",)]  # type: ignore[arg-type]


def filled(before: bytes, piece: bytes, after: bytes, size: int = _BODY_BYTES) -> bytes:
    """Return a body of about this size, of many pieces with commas in between."""
    count = (size - len(before) - len(after)) // (len(piece) + 1)
    return b"".join((before, b",".join([piece] * count), after))


_TEXT = b"x" * 1_000
_EVENTS = b"[%b]" % b",".join(
    [b'{"type":"agent.message","session_thread_id":"t%d","text":"%b"}' % (n, _TEXT * 7) for n in range(1_000)]
)
_DENSE_EVENTS = b"[%b]" % b",".join([filled(b'{"type":"a","list":[', b"[0]", b"]}", 8_000)] * 1_000)
_NAMED_EVENTS = b"[%b]" % b",".join(
    [b'{"type":"user.message","id":"name-%d","text":"%b"}' % (n, _TEXT) for n in range(1_000)]
)
_MEMORIES = b'[{"type":"note","id":"evidence"},%b]' % b",".join(
    [
        b'{"type":"ds.memory.written","scope":"project:p","key":"k%d","value":"remembered %b","why":"state",'
        b'"refs":[{"rel":"because","id":"evidence"}]}' % (n, _TEXT)
        for n in range(DEFAULT_LIMITS.memory_events_per_request_max)
    ]
)
_MESSAGES = b"[%b]" % b",".join([b'{"n":[%b]}' % b",".join([b"1"] * 380)] * 10_000)
_DENSE = filled(b'{"name":"dense","metadata":{},"tools":[', b"[[],{}]", b"]}")
_LONG_TEXT = b'{"name":"long","model":"m","system":"%b"}' % (b"y" * _BODY_BYTES)
_TOOLS = filled(b'{"name":"t","model":"m","tools":[', b'{"type":"custom","name":"a"}', b"]}")
_PACKAGES = filled(b'{"name":"e","config":{"packages":{"pip":[', b'"a"', b"]}}}")
_METADATA = b'{"metadata":{%b}}' % b",".join([b'"k%d":"%b"' % (n, b"v" * 200) for n in range(1_100)])
_DENSE_METADATA = filled(b'{"metadata":{"a":[', b"[]", b"]}}")
_RESOURCES = filled(b'{"resources":[', b'{"type":"x"}', b"]}")
_PATHS = b'{"streams":[%b]}' % b",".join([b'"plain/%06d"' % n for n in range(9_000)])
_SUBSCRIBE = b'{"type":"pull-wake","pattern":"%b","wake_stream":"wakes"}'
_QUERIES = (
    "limit=1000",
    "limit=1000&order=asc",
    "limit=1000&include_archived=true",
    "metadata[team]=nobody",
    "metadata[team]=team-7&limit=1000",
    "q=nowhere",
    "lifecycle=paused",
    "lifecycle=closed&limit=1000",
    "agent_id=agent_nobody",
    "agent_id=agent_7&agent_version=2",
    "created_at[lt]=2020-01-01T00:00:00Z",
    "created_at[gte]=2020-01-01T00:00:00Z&limit=1000",
    "created_at[gt]=2090-01-01T00:00:00Z",
    "statuses=terminated",
    "deployment_id=nothing",
    "q=large&limit=1000",
)
_EVENT_QUERIES = (
    "limit=10000",
    "limit=10000&order=desc",
    "tail=10000",
    "types=nothing",
    "types=nothing&order=desc",
    "types=agent.tool_use&limit=10000",
    "types=agent.tool_use&pairs=keep&limit=10000",
    "types=agent.message&pairs=keep&limit=10000",
    "pairs=keep&limit=10000",
    "pairs=keep&limit=10000&order=desc",
    "created_at[lt]=2020-01-01T00:00:00Z",
    "q=word&limit=1000",
)

TRIALS: dict[str, Sequence[Trial]] = {
    "createSession": _post(
        "/v1/sessions",
        _METADATA,
        b'{"initial_events":%b}' % _EVENTS,
        b'{"initial_events":%b}' % _DENSE_EVENTS,
        _DENSE_METADATA,
        _RESOURCES,
        b'{"agent":"{large_agent}"}',
        b'{"agent":"{agent}"}',
        b'{"agent":{"id":"x","tools":%b}}' % filled(b"[", b"[]", b"]"),
    ),
    "listSessions": [
        *_get(*(f"/v1/sessions?{query}" for query in _QUERIES)),
        *_get("/v1/sessions?metadata[team]=nobody", times=20),
        *_get("/v1/sessions?live=sse", take_bytes=1),
    ],
    "putSession": _post("/v1/sessions/put", _METADATA, _METADATA, _DENSE_METADATA, method="PUT"),
    "getSession": _get("/v1/sessions/large-0001", _LONG, "/v1/sessions/s-000777"),
    "updateSession": _post("/v1/sessions/large-0002", b'{"title":"t"}', _METADATA, _DENSE_METADATA),
    "deleteSession": [Trial("DELETE", "/v1/sessions/s-000778"), Trial("DELETE", "/v1/sessions/large-0003")],
    "closeSession": _post("/v1/sessions/s-000779/close"),
    "redactEvents": _post("/v1/sessions/s-000780/redact", b'{"events":["sevt_none"],"reason":"r"}'),
    "archiveSession": _post("/v1/sessions/s-000781/archive"),
    "appendEvents": _post(
        "/v1/sessions/appended/events", b'{"type":"a"}', _EVENTS, _DENSE_EVENTS, _NAMED_EVENTS, _NAMED_EVENTS
    ),
    "readEvents": [
        *_get(*(f"{_LONG}/events?{query}" for query in _EVENT_QUERIES)),
        *_get(f"{_LONG}/events?limit=10000", headers={"Accept": "application/x-ndjson"}),
        *_get(f"{_LONG}/events?types=nothing", times=20),
        *_get("/v1/sessions/fork-00007/events", "/v1/sessions/s-000777/events?pairs=keep"),
        *_get("/v1/sessions/appended/events?limit=10000", "/v1/sessions/appended/events?types=x"),
        *_get("/v1/sessions/appended/events?limit=10000&order=desc&pairs=keep"),
    ],
    "headEvents": [Trial("HEAD", f"{_LONG}/events")],
    "streamEvents": [
        *_get(f"{_LONG}/events/stream?offset=-1", take_bytes=8 * MIB),
        *_get(f"{_LONG}/events/stream?offset=-1&types[]=nothing", take_bytes=1),
        *_get("/v1/sessions/appended/events/stream?offset=-1", take_bytes=8 * MIB),
    ],
    "streamSession": _get(f"{_LONG}/stream?offset=-1", take_bytes=8 * MIB),
    "getEvent": _get(f"{_LONG}/events/call-3", f"{_LONG}/events/nothing"),
    "getState": _get(f"{_LONG}/state", f"{_LONG}/state?at=9", "/v1/sessions/appended/state"),
    "getContext": _get(
        f"{_LONG}/context",
        f"{_LONG}/context?budget_tokens=10000000&q=word",
        f"{_LONG}/context?types=nothing",
        "/v1/sessions/appended/context?budget_tokens=10000000",
    ),
    "getDiff": _get(f"{_LONG}/diff?with=appended", "/v1/sessions/fork-00007/diff?with=fork-00008"),
    "getGraph": _get(
        f"{_LONG}/graph",
        f"{_LONG}/graph?format=mermaid",
        f"{_LONG}/graph?format=dot&family=false",
        "/v1/sessions/fork-00007/graph",
        "/v1/sessions/appended/graph",
        "/v1/sessions/entangled/graph",
    ),
    "getWhy": _get(
        f"{_LONG}/events/call-3/why?depth=50",
        f"{_LONG}/events/nothing/why",
        "/v1/sessions/entangled/events/e1999/why?depth=50",
    ),
    "getImpact": _get(
        f"{_LONG}/events/call-3/impact?depth=50",
        f"{_LONG}/events/nothing/impact",
        "/v1/sessions/entangled/events/e0/impact?depth=50",
    ),
    "adoptBranch": _post("/v1/sessions/appended/adopt", b'{"session":"fork-00007"}', _DENSE),
    "getDossier": _get(
        f"{_LONG}/dossier?kind=report&format=zip",
        f"{_LONG}/dossier?kind=trading",
        f"{_LONG}/dossier?kind=engineering&format=md",
        "/v1/sessions/fork-00007/dossier?kind=research",
        "/v1/sessions/appended/dossier?kind=report&format=zip",
        "/v1/sessions/entangled/dossier?kind=report&format=zip",
    ),
    "exportSession": _get(f"{_LONG}/export", f"{_LONG}/export?format=html", f"{_LONG}/export?format=otlp"),
    "getHandoff": _get(f"{_LONG}/handoff"),
    "wakeSession": _post("/v1/sessions/appended/wake", b"{}", _DENSE),
    "renewLease": _post("/v1/sessions/appended/renew", b'{"epoch":1}', _DENSE),
    "releaseLease": _post("/v1/sessions/appended/release", b'{"epoch":1}', _DENSE),
    "readMemory": [
        *_post("/v1/sessions/remembering/events", _MEMORIES, times=11),
        *_get("/v1/memory?scope=project:p&limit=1000", "/v1/memory?scope=project:p&key=k7", times=3),
        *_get("/v1/memory?scope=project:p&q=remembered&limit=1000", "/v1/memory?scope=project:p&at=5000"),
    ],
    "readMemoryLog": _get("/v1/memory/log?scope=project:p&limit=1000"),
    "listMemoryScopes": _get("/v1/memory/scopes?limit=1000"),
    "recallMemory": _post(
        "/v1/sessions/remembering/recall", b'{"scope":"project:p","q":"remembered","limit":100}', _DENSE
    ),
    "readSlots": _get(f"{_LONG}/slots", f"{_LONG}/slots?prefix=&order=desc&limit=1000&values=false&at=9"),
    "readUsage": _get("/v1/usage", "/v1/usage?by=agent", "/v1/usage?by=metadata[team]&after=2026-01-01"),
    "listApprovals": _get(
        "/v1/approvals?limit=100", "/v1/approvals?state=decided&limit=100", "/v1/approvals?page=x"
    ),
    "search": _get(
        "/v1/search?q=ticket&limit=100&hits=20",
        "/v1/search?q=ticket&metadata[team]=team-7",
        "/v1/search?q=ticket&metadata[team]=nobody",
        "/v1/search?q=ticket&agent=agent_7",
        "/v1/search?q=word",
        "/v1/search?q=word&session=" + "&session=".join(f"fork-{n:05d}" for n in range(100)),
    ),
    "listThreads": _get(f"{_LONG}/threads", f"{_LONG}/threads?statuses=running"),
    "getThread": _get(f"{_LONG}/threads/sthr_7", f"{_LONG}/threads/nothing"),
    "archiveThread": _post(f"{_LONG}/threads/sthr_8/archive"),
    "readThreadEvents": _get(
        f"{_LONG}/threads/sthr_7/events?limit=10000", f"{_LONG}/threads/sthr_7/events?order=desc"
    ),
    "readOutline": _get(
        f"{_LONG}/outline?points=2000",
        f"{_LONG}/outline?from=0",
        "/v1/sessions/appended/outline?points=2000",
    ),
    "streamThread": _get(f"{_LONG}/threads/sthr_7/stream?offset=-1", take_bytes=1),
    "addResource": _post(f"{_LONG}/resources", b'{"type":"file","file_id":"f"}', _DENSE),
    "listResources": _get("/v1/sessions/resourceful/resources"),
    "getResource": _get("/v1/sessions/resourceful/resources/{resource}"),
    "updateResource": _post("/v1/sessions/resourceful/resources/{resource}"),
    "deleteResource": [Trial("DELETE", "/v1/sessions/resourceful/resources/{resource}")],
    "createAgent": _post("/v1/agents", _DENSE, _LONG_TEXT, _TOOLS, b'{"name":"a","model":"m"}'),
    "listAgents": _get(
        "/v1/agents?limit=100", "/v1/agents", "/v1/agents?created_at[lte]=2020-01-01T00:00:00Z", times=1
    ),
    "getAgent": _get("/v1/agents/{large_agent}", "/v1/agents/{large_agent}?version=1"),
    "updateAgent": _post("/v1/agents/{large_agent}", b'{"name":"renamed"}', _TOOLS),
    "archiveAgent": _post("/v1/agents/{large_agent}/archive"),
    "listAgentVersions": _get("/v1/agents/{large_agent}/versions?limit=100"),
    "createEnvironment": _post("/v1/environments", _PACKAGES, b'{"name":"e"}'),
    "listEnvironments": _get("/v1/environments?limit=100"),
    "getEnvironment": _get("/v1/environments/{large_environment}"),
    "updateEnvironment": _post("/v1/environments/{large_environment}", b'{"name":"renamed"}', _PACKAGES),
    "listWork": _get("/v1/environments/{queue}/work?limit=100"),
    "pollWork": _get("/v1/environments/{queue}/work/poll", headers={"Anthropic-Worker-ID": "w"}),
    "getWorkStats": _get("/v1/environments/{queue}/work/stats"),
    "getWork": _get("/v1/environments/{queue}/work/{work}", "/v1/environments/{queue}/work/work_missing"),
    "updateWork": _post("/v1/environments/{queue}/work/{work}", b'{"metadata":{"a":"b"}}', _DENSE_METADATA),
    "acknowledgeWork": _post("/v1/environments/{queue}/work/{work}/ack"),
    "heartbeatWork": _post("/v1/environments/{queue}/work/{work}/heartbeat"),
    "stopWork": _post("/v1/environments/{queue}/work/{work}/stop"),
    "archiveEnvironment": _post("/v1/environments/{large_environment}/archive"),
    "createMemoryStore": _post("/v1/memory_stores", b'{"name":"s"}', _METADATA),
    "listMemoryStores": _get("/v1/memory_stores?limit=100"),
    "getMemoryStore": _get("/v1/memory_stores/{store}"),
    "updateMemoryStore": _post("/v1/memory_stores/{store}", b'{"description":"d"}', _METADATA),
    "createMemory": _post(
        "/v1/memory_stores/{store}/memories", b'{"path":"/large","content":"%b"}' % (b"x" * 102_400), _DENSE
    ),
    "listMemories": _get("/v1/memory_stores/{store}/memories?limit=100&view=full&depth=1"),
    "getMemory": _get("/v1/memory_stores/{store}/memories/{memory}"),
    "updateMemory": _post("/v1/memory_stores/{store}/memories/{memory}", b'{"content":"new"}', _DENSE),
    "deleteMemory": [Trial("DELETE", "/v1/memory_stores/{store}/memories/{memory}")],
    "listMemoryVersions": _get(
        "/v1/memory_stores/{store}/memory_versions?limit=100",
        "/v1/memory_stores/{store}/memory_versions?view=full",
    ),
    "getMemoryVersion": _get("/v1/memory_stores/{store}/memory_versions/{version}"),
    "redactMemoryVersion": _post("/v1/memory_stores/{store}/memory_versions/{version}/redact"),
    "archiveMemoryStore": _post("/v1/memory_stores/{store}/archive"),
    "deleteMemoryStore": [Trial("DELETE", "/v1/memory_stores/{store}")],
    "deleteEnvironment": [Trial("DELETE", "/v1/environments/{large_environment}")],
    "putArtifact": [
        Trial("PUT", f"/v1/artifacts/{ARTIFACT_DIGEST}", ARTIFACT, {"Content-Type": "text/plain"}),
        Trial("PUT", f"/v1/artifacts/{ARTIFACT_DIGEST}", ARTIFACT, {"Content-Type": "text/plain"}),
    ],
    "getArtifact": _get(f"/v1/artifacts/{ARTIFACT_DIGEST}"),
    "deleteArtifact": [Trial("DELETE", f"/v1/artifacts/{ARTIFACT_DIGEST}")],
    "ingestClaudeCode": _post(
        "/v1/ingest/claude-code",
        b'{"session_id":"cc","hook_event_name":"UserPromptSubmit","prompt":"%b"}' % (b"p" * 900_000),
        filled(b'{"session_id":"cc","hook_event_name":"Stop","list":[', b"[]", b"]}"),
    ),
    "exportTraces": _post(
        "/v1/traces",
        filled(
            b'{"resourceSpans":[{"scopeSpans":[{"spans":[',
            b'{"traceId":"%b","spanId":"00000000000000ab","name":"x","startTimeUnixNano":"1763460000000000000"}'
            % (b"ab" * 16),
            b"]}]}]}",
        ),
        filled(b'{"resourceSpans":[{"x":[', b"[]", b"]}]}"),
    ),
    "exportLogs": _post(
        "/v1/logs",
        filled(
            b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[',
            b'{"timeUnixNano":"1763460000000000000","body":{"stringValue":"x"}}',
            b"]}]}]}",
        ),
    ),
    "exportMetrics": _post("/v1/metrics", filled(b'{"resourceMetrics":[', b"{}", b"]}")),
    "uploadFile": [
        Trial(
            "POST",
            "/v1/files",
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n%b\r\n--x--' % ARTIFACT,
            {"Content-Type": "multipart/form-data; boundary=x"},
        )
    ],
    "listFiles": _get("/v1/files?limit=100"),
    "getFile": _get("/v1/files/file_missing", "/v1/files/{file}"),
    "downloadFile": _get("/v1/files/file_missing/content", "/v1/files/{file}/content"),
    "deleteFile": [Trial("DELETE", "/v1/files/file_missing"), Trial("DELETE", "/v1/files/{file}")],
    "createStream": [
        *_post("/v1/stream/made", _MESSAGES, method="PUT"),
        Trial("PUT", "/v1/stream/bytes", b"b" * _BODY_BYTES, {"Content-Type": "text/plain"}),
    ],
    "appendToStream": [
        *_post("/v1/stream/made", _MESSAGES, filled(b"[", b"0", b"]"), filled(b"[[", b"[]", b"]]"), b"1"),
        Trial("POST", "/v1/stream/bytes", b"b" * _BODY_BYTES, {"Content-Type": "text/plain"}),
    ],
    "readStream": _get(
        "/v1/stream/made",
        "/v1/stream/bytes",
        "/v1/stream/sessions/long?offset=-1",
        "/v1/stream/plain/000001",
    )
    + _get("/v1/stream/sessions/long?offset=-1&live=sse", take_bytes=8 * MIB),
    "headStream": [Trial("HEAD", "/v1/stream/made")],
    "deleteStream": [Trial("DELETE", "/v1/stream/made"), Trial("DELETE", "/v1/stream/plain/000002")],
    "putSubscription": _post(
        f"{_SUBSCRIPTION}/all",
        _SUBSCRIBE % b"nothing/at/all/*",
        _SUBSCRIBE % b"plain/0000**",
        b'{"type":"pull-wake","wake_stream":"wakes",%b' % _PATHS[1:],
        method="PUT",
    ),
    "getSubscription": _get(f"{_SUBSCRIPTION}/linked", f"{_SUBSCRIPTION}/long-0"),
    "deleteSubscription": [Trial("DELETE", f"{_SUBSCRIPTION}/all")],
    "linkStreams": _post(f"{_SUBSCRIPTION}/linked/streams", _PATHS),
    "unlinkStream": [Trial("DELETE", f"{_SUBSCRIPTION}/linked/streams/plain/000007")],
    "claimWake": _post(f"{_SUBSCRIPTION}/linked/claim", b'{"worker":"w"}'),
    "ackWake": _post(f"{_SUBSCRIPTION}/linked/ack", b'{"wake_id":"w","generation":1,"acks":[],"done":true}'),
    "releaseWake": _post(f"{_SUBSCRIPTION}/linked/release", b'{"wake_id":"w","generation":1}'),
    "callbackWake": _post(f"{_SUBSCRIPTION}/linked/callback", b'{"wake_id":"w","generation":1,"acks":[]}'),
    "getSigningKeys": _get("/v1/stream/__ds/jwks.json"),
    "createKey": _post("/v1/keys", b'{"principal":"p","role":"writer"}', _DENSE),
    "listKeys": _get("/v1/keys?limit=1000"),
    "revokeKey": [Trial("DELETE", "/v1/keys/{key}")],
    "readAudit": _get("/v1/audit?limit=1000", "/v1/audit?limit=1000&order=asc"),
    "signIn": _post("/v1/login", b'{"key":"dsk_unknown"}', _DENSE),
    "signOut": [Trial("DELETE", "/v1/login")],
    "whoami": _get("/v1/whoami"),
    "index": _get("/"),
    "openapi": _get("/openapi.json"),
    "docs": _get("/docs"),
    "docsApi": _get("/docs/api"),
    "docsPage": _get("/docs/sessions"),
    "docsPageInFolder": _get("/docs/reference/limits"),
    "live": _get("/livez"),
    "ready": _get("/readyz"),
    "metrics": _get("/metrics"),
    "flush": _post("/v1/admin/flush"),
    "getStatus": _get("/v1/admin/status"),
    "reindex": _post("/v1/admin/reindex"),
}
