"""``make bench``: what an append costs, on which carrier, beside its peers; interleaved, in one run."""

import argparse
import contextlib
import os
import platform
import sys
from collections.abc import Callable
from statistics import median

from bench import disk, load, peers
from bench.load import Measured

Run = Callable[[], Measured]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured; the median counts")
    options = parser.parse_args()
    load.require_wrk()
    print(f"machine: {os.cpu_count()} cores, {platform.platform()}, Python {platform.python_version()}")
    print(f"command: python -m bench --seconds {options.seconds:g} --rounds {options.rounds}\n")
    with contextlib.ExitStack() as stack:
        rows = _prepare(stack, options.seconds)
        results: dict[str, list[Measured]] = {name: [] for name in rows}
        for number in range(options.rounds):
            for name, run in rows.items():
                results[name].append(run())
                print(f"round {number + 1}: {name}: {results[name][-1].per_second:,.0f}/s", file=sys.stderr)
    _print(results)


def _prepare(stack: contextlib.ExitStack, seconds: float) -> dict[str, Run]:
    def appends(url: str, **options: int) -> Run:
        chosen = {"connections": 64, "streams": 100, **options}
        return lambda: load.appends(url, seconds=seconds, **chosen)

    durable = {}
    for carrier in ("built-in", "uvicorn", "granian"):
        durable[carrier] = stack.enter_context(peers.ours(carrier))
        peers.create_streams(durable[carrier], 100)
    rows = {"ours, 64 connections, 100 streams": appends(durable["built-in"])}
    rows["ours, 64 connections, 1 stream"] = appends(durable["built-in"], streams=1)
    rows["ours, 64 connections, 100 events per request"] = appends(durable["built-in"], events=100)
    rows["ours, 1 connection"] = appends(durable["built-in"], connections=1)
    rows["bare write + fdatasync, one at a time"] = lambda: disk.bare_appends(seconds)
    for carrier in ("uvicorn", "granian"):
        rows[f"ours as ASGI on {carrier}, 64 connections"] = appends(durable[carrier])
    for carrier in ("built-in", "uvicorn", "granian"):
        rows[f"empty 204 from {carrier}, 64 connections"] = appends(
            stack.enter_context(peers.ours(carrier, application="empty"))
        )
    if peers.has_node():
        for kept, is_durable in (("file-backed", True), ("in memory", False)):
            url = stack.enter_context(peers.node_reference(durable=is_durable))
            peers.create_streams(url, 100)
            rows[f"Node reference {kept}, 64 connections"] = appends(url)
    else:
        print("NODE IS MISSING: the reference server was not measured", file=sys.stderr)
    return rows


def _print(results: dict[str, list[Measured]]) -> None:
    ours = median(one.per_second for one in next(iter(results.values())))
    print("| what | requests/s | p50 ms | p99 ms | failures | ours is |\n|---|---|---|---|---|---|")
    for name, runs in results.items():
        rate = median(one.per_second for one in runs)
        p50, p99 = median(one.p50_ms for one in runs), median(one.p99_ms for one in runs)
        failures = sum(one.failures for one in runs)
        print(f"| {name} | {rate:,.0f} | {p50:.2f} | {p99:.2f} | {failures} | {ours / rate:.2f}× |")


if __name__ == "__main__":
    main()
