"""The same text of several channels is one event, and a text that is said twice is two."""

from durable_sessions.importers.codex.duplicates import Duplicates


def test_a_text_is_new_on_its_first_channel_only() -> None:
    seen = Duplicates()
    assert seen.is_new("item", "hello")
    assert not seen.is_new("event", "hello")
    assert not seen.is_new("turn", " hello\n")


def test_a_text_that_one_channel_says_again_is_new_again() -> None:
    seen = Duplicates()
    assert [seen.is_new("item", "yes") for _ in range(2)] == [True, True]
    assert [seen.is_new("event", "yes") for _ in range(3)] == [False, False, True]


def test_a_new_turn_forgets_what_was_said() -> None:
    seen = Duplicates()
    assert seen.is_new("item", "hello")
    seen.forget()
    assert seen.is_new("event", "hello")


def test_a_lone_surrogate_is_a_text_as_any_other() -> None:
    seen = Duplicates()
    assert seen.is_new("item", "\ud800")
    assert not seen.is_new("event", "\ud800")
