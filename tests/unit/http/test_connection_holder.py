"""Whom a connection is counted for."""

import pytest

from durable_sessions.errors import ShareExceededError
from durable_sessions.http.carrier.connection_holder import ConnectionHolder
from durable_sessions.http.carrier.message import KEYLESS
from durable_sessions.shares import Shares


def test_a_connection_stands_for_itself_until_it_shows_a_key() -> None:
    connections = Shares(4)
    one, other = ConnectionHolder(connections), ConnectionHolder(connections)
    assert one.current is one
    assert one.current != other.current
    assert (one.named, one.has_key, one.is_known) == (None, False, False)
    other.change(KEYLESS)
    assert (other.current, other.named, other.has_key) == (KEYLESS, KEYLESS, False)
    other.require_share()
    assert connections.held == 0, "only the connections of keys are counted"


def test_a_connection_is_counted_for_one_key_at_a_time() -> None:
    connections = Shares(4)
    holder = ConnectionHolder(connections)
    holder.change("a")
    assert (holder.current, holder.has_key, connections.of("a")) == ("a", True, 1)
    holder.change("b")
    assert (connections.of("a"), connections.of("b")) == (0, 1)
    holder.change(None)
    holder.change(None)
    assert (holder.current, connections.held) == (holder, 0)


def test_a_key_may_hold_as_many_connections_as_it_leaves_to_others() -> None:
    connections = Shares(4)
    holders = [ConnectionHolder(connections) for _ in range(3)]
    for holder in holders:
        holder.change("a")
    with pytest.raises(ShareExceededError, match="connections"):
        holders[2].require_share()
    holders[2].change(None)
    holders[1].require_share()
