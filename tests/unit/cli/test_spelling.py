"""Suggestions for misspelt words: near ones, and none for a word that is only of the same family."""

import pytest

from durable_sessions.cli.spelling import near, nearest

KNOWN = ["user.message", "agent.message", "agent.tool_use", "agent.tool_result", "project:calc", "tool"]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("user.mesage", ["user.message"]),
        ("usr.message", ["user.message"]),
        ("agent.tool_ues", ["agent.tool_use"]),
        ("agent.tool", ["agent.tool_use"]),
        ("project:clac", ["project:calc"]),
        ("project:web", []),
        ("agent.fact", []),
        ("foo", []),
        ("", []),
    ],
)
def test_only_what_is_near_is_suggested(given: str, meant: list[str]) -> None:
    assert near(given, KNOWN) == meant


def test_a_suggestion_is_a_question() -> None:
    assert nearest("tol", KNOWN) == "Did you mean tool?"
    assert nearest("xyz", KNOWN) == ""
