"""Small things that tests of search have in common."""

from collections.abc import Iterable
from typing import Any

import httpx2

from tests.support.sessions import position


def said(text: str, kind: str = "user.message", **more: Any) -> dict[str, Any]:
    """Return an event that says something."""
    return {"type": kind, "content": [{"type": "text", "text": text}], **more}


async def found(api: httpx2.AsyncClient, session: str, q: str, **parameters: Any) -> dict[str, Any]:
    """Return the answer to a search in one session."""
    return await _answer(api, f"/sessions/{session}/events", {"q": q, **parameters})


async def found_everywhere(api: httpx2.AsyncClient, q: str, **parameters: Any) -> dict[str, Any]:
    """Return the answer to a search in all sessions."""
    return await _answer(api, "/search", {"q": q, **parameters})


async def _answer(api: httpx2.AsyncClient, path: str, parameters: dict[str, Any]) -> dict[str, Any]:
    answer = await api.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def positions(answer: dict[str, Any]) -> list[int]:
    """Return where the hits of a search in one session stand, in their order."""
    return [position(hit["offset"]) for hit in answer["data"]]


def grouped(answer: dict[str, Any]) -> dict[str, list[int]]:
    """Return where the hits of a search in all sessions stand, by session, in their order."""
    named = [group["session"]["id"] for group in answer["data"]]
    assert len(named) == len(set(named)), named
    return {
        group["session"]["id"]: [position(hit["offset"]) for hit in group["hits"]] for group in answer["data"]
    }


def scores(answer: dict[str, Any]) -> list[float]:
    """Return the scores of all hits, in their order."""
    hits: Iterable[dict[str, Any]] = (hit for one in answer["data"] for hit in one.get("hits", [one]))
    return [hit["search"]["score"] for hit in hits]


async def picture(api: httpx2.AsyncClient, queries: Iterable[str], sessions: Iterable[str] = ()) -> list[Any]:
    """Return all that searches tell, scores included, to compare an index with another one."""
    seen: list[Any] = []
    for q in queries:
        everywhere = await found_everywhere(api, q, limit=100, hits=20)
        assert everywhere["up_to_date"], everywhere
        seen.append(
            (
                q,
                everywhere["total_hits"],
                everywhere["total_sessions"],
                [
                    (group["session"]["id"], [(hit["id"], hit["search"]) for hit in group["hits"]])
                    for group in everywhere["data"]
                ],
            )
        )
        for session in sessions:
            answer = await found(api, session, q, limit=1000)
            assert answer["up_to_date"], answer
            hits = [(hit["id"], hit["search"]) for hit in answer["data"]]
            seen.append((q, session, answer["total_hits"], hits))
    return seen


def apart(q: list[str]) -> str:
    """Return a query whose words are no neighbours, so that none is rewarded for standing beside another."""
    return " ".join(f"{word} absent{number}" for number, word in enumerate(q))
