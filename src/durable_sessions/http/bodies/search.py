"""Answers of searches."""

from typing import Annotated, Any

import msgspec

from durable_sessions.schema_notes import Time, Whole, about, ref

_Hit = Annotated[msgspec.Raw, about(**ref("Hit"))]
_NextPage = Annotated[str | None, about("What to send as `page` for the next page.")]
_TotalHits = Annotated[Whole, about("How many events match.")]
_UpToDate = Annotated[bool, about("Whether all acknowledged events were searched.")]


class HitDetails(msgspec.Struct):
    """Why an event was found."""

    score: Annotated[float, about("BM25; higher is better. 0 if the order is not by score.")]
    snippet: Annotated[
        str, about("The part of the event's text that has most of the query, shortened by `…`.")
    ]
    highlights: Annotated[
        list[Annotated[Any, about(type="array", items={"type": "integer"}, minItems=2, maxItems=2)]],
        about("Where words of the query begin and end, in characters of the snippet."),
    ]
    position: Annotated[Whole, about("The number of the event in its session, counted from 0.")]


class HitMember(msgspec.Struct):
    """What an event that was found has beyond what is stored."""

    search: HitDetails


class FoundEventsAnswer(msgspec.Struct):
    """What a search in one session found."""

    data: list[_Hit]
    next_page: _NextPage
    total_hits: _TotalHits
    indexed_through: Annotated[str, about("All events before this offset were searched.")]
    up_to_date: _UpToDate


class FoundPositionsAnswer(msgspec.Struct):
    """Where in one session a search found something, without the events: with `fields=positions`."""

    total_hits: _TotalHits
    positions: Annotated[list[Whole], about("Of the events that match, ascending; at most 10,000.")]
    truncated: Annotated[bool, about("Whether more events match than there are positions here.")]
    indexed_through: Annotated[str, about("All events before this offset were searched.")]
    up_to_date: _UpToDate


class FoundSession(msgspec.Struct):
    """A session with its best hits."""

    session: Annotated[msgspec.Raw, about(**ref("Session"))]
    hits: list[_Hit]


class FoundSessionsAnswer(msgspec.Struct):
    """What a search in all sessions found."""

    data: list[FoundSession]
    next_page: _NextPage
    total_hits: _TotalHits
    total_sessions: Annotated[Whole, about("How many sessions hold them.")]
    indexed_through: Annotated[
        Time | None,
        about("All that was acknowledged before it was searched; null while an index is built."),
    ]
    up_to_date: _UpToDate
    complete: Annotated[
        bool | msgspec.UnsetType, about("False if a partition of the server could not be asked.")
    ] = msgspec.UNSET
    missing: Annotated[list[Whole] | msgspec.UnsetType, about("The partitions that were not asked.")] = (
        msgspec.UNSET
    )
