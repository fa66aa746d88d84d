"""Settings that all nodes must have alike: a difference is named, and their values are not told."""

from dataclasses import replace
from typing import Any

from durable_sessions.node.shared_settings import SHARED, differing, fingerprint
from durable_sessions.settings import Settings

SETTINGS = Settings(api_key="the key of all nodes")


def test_what_differs_is_named() -> None:
    own = fingerprint(SETTINGS, [b"secret"])
    assert differing(own, own) == []
    assert differing(own, fingerprint(replace(SETTINGS, port=1, node_name="other"), [b"secret"])) == []
    other = fingerprint(replace(SETTINGS, api_key="another", workspace_bytes=7), [b"secret"])
    assert differing(own, other) == ["api_key", "workspace_bytes"]


def test_every_one_of_them_counts() -> None:
    own = fingerprint(SETTINGS, [b"secret"])
    for name in SHARED:
        changed: dict[str, Any] = {name: "other"}
        assert differing(own, fingerprint(replace(SETTINGS, **changed), [b"secret"])) == [name]


def test_who_tells_something_else_is_not_compared() -> None:
    assert differing(fingerprint(SETTINGS, [b"secret"]), "") == []


def test_without_the_secret_it_tells_nothing() -> None:
    assert differing(fingerprint(SETTINGS, [b"secret"]), fingerprint(SETTINGS, [b"other"])) == list(SHARED)


def test_nodes_compare_by_a_secret_that_both_have() -> None:
    before, both, after = (
        fingerprint(SETTINGS, secrets) for secrets in ([b"old"], [b"new", b"old"], [b"new"])
    )
    assert differing(before, both) == differing(both, after) == differing(after, both) == []
    other = fingerprint(replace(SETTINGS, workspace_bytes=7), [b"new", b"old"])
    assert (
        differing(before, other) == differing(other, after) == differing(both, other) == ["workspace_bytes"]
    )
