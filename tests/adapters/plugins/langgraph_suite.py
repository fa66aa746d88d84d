"""Runs LangGraph's suite for checkpointers, whichever PYTHONPATH has first, and prints what it found."""

import asyncio
import itertools
import json
import os
import sys
import uuid
from collections.abc import AsyncIterator

from langgraph.checkpoint import conformance

from durable_sessions.adapters.langgraph import DurableSaver

_NUMBERS = itertools.count()
_RUN = uuid.uuid4().hex


@conformance.checkpointer_test(name="DurableSaver")  # type: ignore[untyped-decorator]
async def fresh() -> AsyncIterator[DurableSaver]:
    """Yield a saver of its own for each test."""
    made = DurableSaver(url=os.environ["ADAPTER_SERVER"], namespace=f"head-{_RUN}-{next(_NUMBERS)}")
    yield made
    await made.aclose()


if __name__ == "__main__":
    results = asyncio.run(conformance.validate(fresh)).results.values()
    report = {
        "from": conformance.__file__,
        "passed": sum(one.tests_passed for one in results),
        "failures": [str(failure) for one in results for failure in one.failures],
    }
    json.dump(report, sys.stdout)
