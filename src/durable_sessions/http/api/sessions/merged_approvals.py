"""Approvals in the sessions of several partitions: each gives its part, and they are merged."""

import asyncio
from collections.abc import Sequence

from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.api.sessions.approvals import PATH, decided, page_of
from durable_sessions.http.api.sessions.errors import refusal
from durable_sessions.http.api.sessions.merged_listing import Ask
from durable_sessions.http.api.sessions.merged_rows import decoded_rows, part_request
from durable_sessions.http.api.sessions.merged_search import MergedSearch
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.carrier.message import Answer, Request, Response
from durable_sessions.http.openapi.approvals import STATE
from durable_sessions.limits import Limits


class MergedApprovals:
    """Answers ``GET /v1/approvals`` from several partitions; ``ask`` asks one of them.

    A partition that cannot answer makes the answer fail: a request that nobody sees waits for ever.
    """

    def __init__(self, ask: Ask, partitions: Sequence[int], search: MergedSearch, limits: Limits) -> None:
        self._ask = ask
        self._partitions = partitions
        self._search = search
        self._bytes_max = limits.page_bytes_max

    async def __call__(self, request: Request) -> Answer:
        """Answer with a page of requests or decisions."""
        try:
            parameters = Parameters(request)
            if parameters.word(STATE) == "decided":
                return await decided(request, self._search)
            part = part_request(request, PATH, request.query)
            answers = await asyncio.gather(*(self._ask(number, part) for number in self._partitions))
            found = decoded_rows(answers)
            return found if isinstance(found, Response) else page_of(parameters, found, self._bytes_max)
        except DurableSessionsError as error:
            return refusal(error, request)
