"""What was not sent yet is known by workspace, and counting it costs nothing."""

import random

from durable_sessions.search.backlog import Backlog, Unsent
from durable_sessions.search.messages import TAILS_PER_PART, indexed
from durable_sessions.search.tails import IndexedTails


def test_a_backlog_knows_what_a_plain_mapping_would() -> None:
    chance = random.Random(1)
    backlog, plain = Backlog(), dict[int, Unsent]()
    for _ in range(5_000):
        stream = chance.randrange(40)
        if chance.random() < 0.4:
            backlog.drop(stream)
            plain.pop(stream, None)
        else:
            known = plain.get(stream)
            workspace = known.workspace if known else chance.choice("abc")
            since_ms = known.since_ms if known else chance.choice((0, 0, 7))
            unsent = Unsent(workspace, chance.randrange(9), since_ms)
            backlog[stream] = plain[stream] = unsent
        assert len(backlog) == len(plain)
        assert set(backlog) == set(plain)
        assert backlog.has_older == any(not one.since_ms for one in plain.values())
        for workspace in "abcd":
            its = {number: one for number, one in plain.items() if one.workspace == workspace}
            assert set(backlog.of(workspace)) == set(its)
            since = backlog.workspace_since_ms(workspace)
            assert since == min((one.since_ms for one in its.values()), default=None)
        assert backlog.get(stream) == plain.get(stream)
        assert (stream in backlog) == (stream in plain)


def test_what_an_index_holds_is_told_in_parts_and_each_is_taken_once() -> None:
    chance = random.Random(2)
    held = {
        workspace: {chance.randrange(2**40): chance.randrange(2**39) for _ in range(count)}
        for workspace, count in (("a", TAILS_PER_PART * 2 + 1), ("b", TAILS_PER_PART), ("c", 0))
    }
    tails = IndexedTails()
    parts = [part for workspace, its in held.items() for part in indexed(workspace, its)]
    assert [len(part.streams) // 8 for part in parts] == [TAILS_PER_PART, TAILS_PER_PART, 1, TAILS_PER_PART]
    for part in parts:
        tails.add(part)
    for workspace, its in held.items():
        for stream, tail in list(its.items())[::2]:
            assert tails.take(workspace, stream) == tail
            assert tails.take(workspace, stream) is None
    assert tails.take("b", -1) is None
    assert tails.take("d", 1) is None
    left = {(workspace, stream) for workspace, its in held.items() for stream in list(its)[1::2]}
    assert set(tails.left()) == left
