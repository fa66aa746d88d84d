"""The examples in the reference of events work: each is stored, in one session, in a sensible order."""

from typing import Any

from durable_sessions import Client
from durable_sessions.sessions.graph.event_guide import GUIDE
from durable_sessions.sessions.graph.schemas import TYPES
from durable_sessions.testing import BackgroundServer

ORDER = [
    *("ds.budget.set", "ds.outcome.defined", "ds.artifact", "ds.sandbox"),
    *("ds.fact", "ds.fact.retracted", "ds.checkpoint", "ds.context.compacted", "ds.context.reset"),
    *("ds.memory.written", "ds.memory.read", "ds.memory.rolled_back"),
    *("ds.evaluation", "ds.approval.requested", "ds.approval.decided"),
    *("ds.session.paused", "ds.session.resumed", "ds.routed"),
]
SESSION = "issue-7"


def example(kind: str) -> dict[str, Any]:
    return GUIDE[kind].example


def test_every_example_that_a_client_may_send_is_stored(running: BackgroundServer) -> None:
    assert {*ORDER} == {kind for kind, shape in TYPES.items() if not shape.is_servers}
    with Client(running.url, principal="coder") as coder, Client(running.url, principal="judge") as judge:
        coder.artifacts.put(b"", "text/x-diff")
        session = coder.session(SESSION)
        session.append({"type": "user.message", "content": "Mend calc."})
        session.append({"type": "agent.tool_use", "id": "call-1", "name": "edit", "input": {}})
        for kind in ORDER:
            by = judge if TYPES[kind].is_judgement else coder
            by.session(SESSION).append(example(kind))
        state = session.state()
        assert state["done"] is True
        assert (state["route"]["to"], state["checkpoint"]["git"]["commit"]) == ("judge", "4f2a91c")


def test_what_the_server_writes_looks_like_its_examples(running: BackgroundServer) -> None:
    with Client(running.url) as client:
        session = client.session(SESSION)
        session.append([{"type": "note", "id": "hello"}, {"type": "ds.budget.set", "tool_calls": 1}])
        session.redact("hello", reason="a password")
        branch = session.fork()
        branch.append(example("ds.fact") | {"refs": []})
        session.adopt(branch)
        with client.wake(SESSION) as work:
            work.append({"type": "agent.tool_use", "id": "call-1", "name": "edit", "input": {}})
        session.end("completed", "Every feature passes.")
        written = {event.type: event.data for event in session.events(types="ds.*")}
        for kind in (kind for kind, shape in TYPES.items() if shape.is_servers):
            assert {*example(kind)} <= {*written[kind]}, kind
