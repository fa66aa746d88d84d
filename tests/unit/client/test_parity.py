"""Both clients have the same methods, which take the same, return the same and say the same of themselves."""

import inspect
import pydoc
import re
from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

import pytest

from durable_sessions.client import (
    async_client,
    async_placement,
    async_replay,
    async_session,
    async_transport,
    async_work,
    async_writer,
    calls,
    pages,
    search,
)
from durable_sessions.client import client as sync_client
from durable_sessions.client import placement as sync_placement
from durable_sessions.client import replay as sync_replay
from durable_sessions.client import session as sync_session
from durable_sessions.client import transport as sync_transport
from durable_sessions.client import work as sync_work
from durable_sessions.client import writer as sync_writer

PAIRS = [
    (sync_client.Client, async_client.AsyncClient),
    (sync_client.SessionCollection, async_client.AsyncSessionCollection),
    (sync_client.ArtifactCollection, async_client.AsyncArtifactCollection),
    (sync_session.Session, async_session.AsyncSession),
    (sync_work.Work, async_work.AsyncWork),
    (sync_placement.PlacedSession, async_placement.AsyncPlacedSession),
    (sync_replay.Replay, async_replay.AsyncReplay),
    (sync_replay.ReadOnlyTransport, async_replay.AsyncReadOnlyTransport),
    (sync_writer.Writer, async_writer.AsyncWriter),
    (sync_writer.Pending, async_writer.AsyncPending),
    (sync_transport.Transport, async_transport.AsyncTransport),
]

ONLY_SYNC = {("Writer", "flush"): {"timeout"}, ("Pending", "result"): {"timeout"}}
"""Parameters that an event loop has no need of: there, a wait is bounded with ``asyncio.timeout``."""

TIMED_OUT = "; TimeoutError after ``timeout`` seconds"


def methods(kind: type[Any]) -> dict[str, Any]:
    """Return the public methods and properties of a class."""
    return {name: value for name, value in inspect.getmembers(kind) if not name.startswith("_")}


def plain(annotation: object) -> str:
    """Return a type as text, the same for a sync type and its async counterpart."""
    text = re.sub(r"[\w.]+\.(?=\w)", "", inspect.formatannotation(annotation)).replace("Async", "")
    return re.sub(r"Generator\[([~\w]+), None\]", r"Generator[\1, None, None]", text).replace("'", "")


def shape(kind: type[Any], name: str) -> tuple[list[tuple[Any, ...]], str, str]:
    """Return the parameters, the result and the docstring of a method or property."""
    value = inspect.getattr_static(kind, name)
    if not callable(value):
        value = getattr(value, "fget", None)
        assert value is not None, f"{name} is neither a method nor a property"
    signature = inspect.signature(value)
    left_out = ONLY_SYNC.get((kind.__name__, name), set())
    parameters: list[tuple[Any, ...]] = [
        (one.name, one.kind, one.default, plain(one.annotation))
        for one in signature.parameters.values()
        if one.name not in left_out
    ]
    said = (inspect.getdoc(value) or "").replace(TIMED_OUT, "")
    return parameters, plain(signature.return_annotation), said


def differences(sync: type[Any], other: type[Any]) -> Iterator[str]:
    """Yield how two classes differ."""
    ours, theirs = methods(sync), methods(other)
    for name in ours.keys() ^ theirs.keys():
        yield f"only one has {name}"
    for name in ours.keys() & theirs.keys():
        if shape(sync, name) != shape(other, name):
            yield f"{name}: {shape(sync, name)} is not {shape(other, name)}"


@pytest.mark.parametrize(("sync", "other"), PAIRS, ids=lambda kind: kind.__name__)
def test_both_shells_are_alike(sync: type[Any], other: type[Any]) -> None:
    assert list(differences(sync, other)) == []
    assert methods(sync) != {}
    assert all(shape(sync, name)[2] for name in methods(sync)), "every method says what it does"


class Sync:
    def one(self, a: int = 1) -> int:
        """Return it."""
        return a


class LessAsync:
    pass


class OtherDefaultAsync:
    async def one(self, a: int = 2) -> int:
        """Return it."""
        return a


class OtherResultAsync:
    async def one(self, a: int = 1) -> str:
        """Return it."""
        return str(a)


class OtherWordsAsync:
    async def one(self, a: int = 1) -> int:
        """Give it."""
        return a


@pytest.mark.parametrize("other", [LessAsync, OtherDefaultAsync, OtherResultAsync, OtherWordsAsync])
def test_a_difference_is_seen(other: type[Any]) -> None:
    assert len(list(differences(Sync, other))) == 1


def test_every_class_of_the_async_shell_has_a_sync_counterpart() -> None:
    shells = (
        async_client,
        async_placement,
        async_replay,
        async_session,
        async_transport,
        async_work,
        async_writer,
    )
    found = {
        kind
        for module in shells
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__
    }
    assert found == {other for _, other in PAIRS}


@pytest.mark.parametrize(
    ("keywords", "request_of"),
    [
        (calls.SessionFields, calls.create),
        (pages.SessionFilters, pages.sessions),
        (pages.EventFilters, pages.events),
        (search.SearchFilters, search.everywhere),
        (search.EventSearchFilters, search.within),
    ],
)
def test_the_keywords_of_a_method_are_those_of_its_request(
    keywords: type[Any], request_of: Callable[..., Any]
) -> None:
    hints = get_type_hints(request_of)
    taken = inspect.signature(request_of).parameters.values()
    named = {one.name: hints[one.name] for one in taken if one.kind is one.KEYWORD_ONLY}
    named.pop("pinned", None)  # which the handle of a session adds
    assert get_type_hints(keywords) == named
    assert not keywords.__required_keys__, "all may be left out"


@pytest.mark.parametrize(
    ("method", "own", "request_of"),
    [
        (sync_client.SessionCollection.create, ["self", "id"], calls.create),
        (sync_client.SessionCollection.list, ["self"], pages.sessions),
        (sync_client.Client.search, ["self", "q"], search.everywhere),
        (sync_session.Session.events, ["self"], pages.events),
        (sync_session.Session.search, ["self", "q"], search.within),
    ],
)
def test_help_shows_the_names_and_defaults_of_all_keywords(
    method: Callable[..., Any], own: list[str], request_of: Callable[..., Any]
) -> None:
    shown = inspect.signature(method).parameters
    taken = inspect.signature(request_of).parameters.values()
    keywords = {one.name: one for one in taken if one.kind is one.KEYWORD_ONLY and one.name != "pinned"}
    assert list(shown) == [*own, *keywords]
    assert {name: shown[name] for name in keywords} == keywords
    help_text = pydoc.plain(pydoc.render_doc(method))
    assert all(f"{name}: " in help_text for name in keywords)
    assert "**" not in help_text


def test_a_misspelt_keyword_is_refused() -> None:
    with sync_client.Client("http://127.0.0.1:1", retries=0) as client:
        session = client.session("s")
        for method in (client.sessions.create, client.sessions.list, session.events):
            with pytest.raises(TypeError, match="ordr"):
                method(ordr="asc")  # type: ignore[call-arg]
        for find in (client.search, session.search):
            with pytest.raises(TypeError, match="ordr"):
                find("word", ordr="asc")  # type: ignore[call-arg]
