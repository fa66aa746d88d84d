"""The tree of records: finds the thread and branch of a record, and detects repeats."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any
from zlib import crc32

import msgspec

from durable_sessions.importers.claude_code import synthetic_text
from durable_sessions.importers.claude_code.context import ClaudeContext, CurrentClaudeRecord, flush_boundary
from durable_sessions.importers.claude_code.thread import ClaudeThread
from durable_sessions.importers.events import Event, objects, plain_text, text, text_block, without
from durable_sessions.importers.lines import SourceRecord

_PROMPT, _ANSWER = 1, 2
# What Claude Code changes when it copies a record into the file of a fork.
_CHANGED_IN_COPIES = (
    "sessionId",
    "timestamp",
    "parentUuid",
    "logicalParentUuid",
    "cwd",
    "version",
    "gitBranch",
    "slug",
)


def digest_of(value: dict[str, Any]) -> bytes:
    """Return a digest that identifies a record, even in a file that it was copied into."""
    return blake2b(msgspec.json.encode(without(value, *_CHANGED_IN_COPIES)), digest_size=8).digest()


class RecordTree:
    """Follows the records of a file: of a session, or of a subagent if ``agent`` names one."""

    def __init__(
        self,
        context: ClaudeContext,
        session: str,
        agent: str | None,
        agent_meta: Mapping[str, Any],
        agents_by_call: Mapping[str, str],
    ) -> None:
        self.main = ClaudeThread(agent)
        self.sidechains: dict[str, ClaudeThread] = {}
        self._context = context
        self._session = session
        self._agent = agent
        self._agent_meta = agent_meta
        self._agents_by_call = agents_by_call
        self._thread_of: dict[str, ClaudeThread] = {}
        self._branch_of: dict[str, int] = {}
        self._digest_of: dict[str, bytes] = {}
        # What came after each record, in one number to save memory: bits 0 and 1 say whether a prompt and an
        # answer did, the rest is the checksum of the answer's id. Lines with the same id are one answer.
        self._children: dict[str | None, int] = {}
        self._branches = 0
        self._sent: set[str] = set()

    def knows(self, uuid: object) -> bool:
        """Say whether a record with this uuid was read."""
        return uuid in self._digest_of

    def key(self, record: SourceRecord) -> str | None:
        """Return the record's own id, or its place where it has none; None if it was read before."""
        uuid = record.value.get("uuid")
        if not isinstance(uuid, str) or not uuid:
            return self.place_of(record)
        digest = digest_of(record.value)
        # The very same object comes back only for a new uuid. An equal digest is a copy of the record, and
        # another one is another record that has the same uuid.
        known = self._digest_of.setdefault(uuid, digest)
        if known is digest:
            return uuid
        return None if known == digest else f"{uuid} {self.place_of(record)}"

    def place_of(self, record: SourceRecord) -> str:
        """Return a name for a record without a uuid; with one, it is the same event in every copy."""
        return f"{self._session} {self._agent or ''} {record.place}"

    def enter(self, now: CurrentClaudeRecord) -> list[Event]:
        """Add a chained record to its thread, and return the events for a thread or branch that begins."""
        uuid, parent = text(now.value.get("uuid")), now.value.get("parentUuid")
        events: list[Event] = []
        if self._agent is not None:
            events = self._begin_agent(now)
        elif now.value.get("isSidechain") is True:
            events = self._enter_sidechain(now, text(parent))
        events += self._follow(now, parent if isinstance(parent, str) else None)
        if uuid and now.thread is not self.main:
            self._thread_of[uuid] = now.thread
        if uuid and now.thread.branch:
            self._branch_of[uuid] = now.thread.branch
        return events

    def sent_to(self, now: CurrentClaudeRecord, call_id: str, agent: str | None = None) -> list[Event]:
        """Return the message that started a subagent, once it is known which call did."""
        agent = agent or self._agents_by_call.get(call_id)
        return self._sent_by(now.thread, now, call_id, agent) if agent else []

    def _sent_by(
        self, thread: ClaudeThread, now: CurrentClaudeRecord, call_id: str, agent: str
    ) -> list[Event]:
        call = thread.calls.get(call_id)
        if call is None or call_id in self._sent:
            return []
        self._sent.add(call_id)
        return [
            self._context.make.make(
                "agent.thread_message_sent",
                f"call {call_id}",
                "sent",
                at=now.at,
                line=now.line,
                thread=thread.id,
                branch=thread.branch,
                call_id=call_id,
                to_session_thread_id=agent,
                tool_use_id=call.event_id,
                content=[text_block(call.prompt)] if call.prompt else [],
            )
        ]

    # Threads ----------------------------------------------------------------------------

    def _begin_agent(self, now: CurrentClaudeRecord) -> list[Event]:
        if self.main.begun:
            return []
        self.main.begun = True
        meta = dict(self._agent_meta)
        return [self._created(now, text(meta.get("agentType")), meta or None)]

    def _created(self, now: CurrentClaudeRecord, name: str = "", meta: object = None) -> Event:
        return self._context.make.make(
            "session.thread_created",
            f"thread {now.thread.id}",
            at=now.at,
            line=now.line,
            thread=now.thread.id,
            agent_name=name or "subagent",
            source_detail=meta,
        )

    def _enter_sidechain(self, now: CurrentClaudeRecord, parent: str) -> list[Event]:
        """Find the subagent of a record in the session's own file: by name, or by its chain."""
        agent = text(now.value.get("agentId"))
        known = self.sidechains.get(agent) if agent else self._thread_of.get(parent)
        if known is not None:
            now.thread = known
            return []
        name = agent or f"side-{text(now.value.get('uuid')) or f'L{now.line}'}"
        now.thread = self.sidechains[name] = ClaudeThread(name, begun=True)
        # These records do not name the call that started them; its prompt is their first text, word for word.
        # Calls with the same prompt are taken in their order, each once.
        prompt = plain_text(now.message.get("content"))
        for call_id, call in self.main.calls.items():
            if call.prompt is not None and call.prompt == prompt and call_id not in self._sent:
                return [*self._sent_by(self.main, now, call_id, name), self._created(now)]
        return [self._created(now)]

    # Branches ---------------------------------------------------------------------------

    def _follow(self, now: CurrentClaudeRecord, parent: str | None) -> list[Event]:
        """Follow the tree: a second prompt, or a second answer, after the same record begins a branch."""
        thread, kind = now.thread, now.value.get("type")
        role = _PROMPT if kind == "user" and _is_typed(now) else _ANSWER if kind == "assistant" else 0
        known = parent is None or parent in self._digest_of
        before = self._children.get(parent, 0) if known else 0
        rewound = role == _PROMPT and bool(before)
        seen = before | role
        if role == _ANSWER and parent is not None:
            answer = crc32(text(now.message.get("id")).encode(errors="replace")) << 2
            rewound = bool(before & _ANSWER) and before >> 2 << 2 != answer
            seen = (seen & (_PROMPT | _ANSWER)) | answer
        if parent is not None and known and not rewound:
            thread.branch = self._branch_of.get(parent, 0)
        if role and thread is self.main and self._agent is None:
            self._children[parent] = seen
            if rewound:
                return self._rewind(now, parent)
        return []

    def _rewind(self, now: CurrentClaudeRecord, parent: str | None) -> list[Event]:
        thread, context = now.thread, self._context
        events = flush_boundary(thread) + thread.close_request(context.make)
        self._branches += 1
        left, thread.branch = thread.branch, self._branches
        context.about.metadata["active_branch"] = str(thread.branch)
        context.tally.notes["branches"] += 1
        return [
            *events,
            context.make.make(
                "session.branch_created",
                f"branch {self._branches} {text(now.value.get('uuid'))}",
                at=now.at,
                line=now.line,
                branch=thread.branch,
                left_branch=left,
                behind_record_id=parent,
            ),
        ]


def _is_typed(now: CurrentClaudeRecord) -> bool:
    if now.value.get("isMeta") is True or now.value.get("isCompactSummary") is True:
        return False
    content = now.message.get("content")
    words = plain_text(content)
    if synthetic_text.is_notification(now.value, words) or synthetic_text.is_from_teammate(now.value, words):
        return False
    return isinstance(content, str) or not any(one.get("type") == "tool_result" for one in objects(content))
