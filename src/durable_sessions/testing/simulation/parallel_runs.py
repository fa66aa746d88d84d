"""Runs many seeds in parallel, in worker processes."""

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import TypeVar

import pyarrow as pa

Given = TypeVar("Given")
Result = TypeVar("Result")

AHEAD = 2
"""How many tasks are queued per process, so that none is idle and few are wasted at the end."""


def run_all(
    function: Callable[[Given], Result], given: Iterable[Given], jobs: int | None = None
) -> Iterator[Result]:
    """Yield what the function makes of each, in the order in which they are done."""
    jobs = jobs or os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    tasks = iter(given)
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_prepare) as pool:
        pending: set[Future[Result]] = set()
        try:
            while True:
                for task in tasks:
                    pending.add(pool.submit(function, task))
                    if len(pending) >= jobs * AHEAD:
                        break
                if not pending:
                    return
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            for future in pending:
                future.cancel()


def _prepare() -> None:
    # The runs keep all processors busy; threads of Arrow would only compete with them.
    pa.set_cpu_count(1)
