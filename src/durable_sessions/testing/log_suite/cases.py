"""The cases that apply to every log, and the list of all."""

from durable_sessions.errors import LogError, LogFencedError
from durable_sessions.log import Claimant, Extent
from durable_sessions.testing.log_suite import fault_cases
from durable_sessions.testing.log_suite.harness import LogCase, LogHarness, LogSuiteError, require
from durable_sessions.testing.log_suite.steps import owned, reopened, replayed, require_fenced, written

BATCHES = [b"batch %d" % number for number in range(12)]


async def order(harness: LogHarness) -> None:
    """Batches come back in the order in which they were appended."""
    log = await owned(harness)
    batches = await written(log, BATCHES)
    require(await replayed(log) == batches, "a replay does not give the batches in their order")
    for after, _ in batches:
        later = [batch for batch in batches if batch[0] > after]
        require(await replayed(log, after) == later, f"a replay after {after} does not give what is after it")


async def exact_bytes(harness: LogHarness) -> None:
    """Bytes come back unchanged, including empty batches and bytes that look like frames or headers."""
    log = await owned(harness)
    payloads = [b"", bytes(range(256)), b"", b"DSF1" * 30, b"DSESSLOG" * 9, bytes(100_000), b"\n"]
    batches = await written(log, payloads)
    require(await replayed(log) == batches, "a batch was changed")
    require(await replayed(await reopened(harness, log)) == batches, "a batch was changed by opening again")


async def positions(harness: LogHarness) -> None:
    """Positions are positive and grow, also after reopening; the log knows where it begins and ends."""
    log = await owned(harness)
    last = log.begins_after
    require(last >= 0, "a log begins before 0")
    for node in ("two", "three", "four"):
        for position, _ in await written(log, [b"", b"x", b"yy"]):
            require(position > last, f"position {position} follows {last}")
            last = position
        require(log.ends_at is not None and log.ends_at >= last, f"it ends at {log.ends_at}, before {last}")
        log = await reopened(harness, log, node)


async def beginning(harness: LogHarness) -> None:
    """A log that has never had a batch begins where it is told to."""
    log = await harness.open()
    require(log.ends_at is None, "an empty log says that it ends somewhere")
    log.begin_at(2**40)
    await log.claim(Claimant("one"))
    position = await log.append(b"first")
    require(position > 2**40, f"the first position is {position}")
    log = await reopened(harness, log)
    require(log.begins_after == 2**40, f"it begins after {log.begins_after}")
    require(await replayed(log) == [(position, b"first")], "the first batch is not there")


async def extents(harness: LogHarness) -> None:
    """A read returns exactly the requested bytes, never fewer."""
    log = await owned(harness)
    (first, _), (second, _) = await written(log, [b"0123456789", b"abcdef"])
    asked = [Extent(second, 2, 3), Extent(first, 0, 10), Extent(first, 9, 1), Extent(second, 6, 0)]
    require(await log.read(asked) == [b"cde", b"0123456789", b"9", b""], "an extent has other bytes")
    for extent in (Extent(second, 4, 3), Extent(second + 10_000, 0, 1)):
        try:
            found = await log.read([extent])
        except LogError:
            continue
        raise LogSuiteError(f"{extent} was read as {found}, which is not there")


async def parts(harness: LogHarness) -> None:
    """A batch that is larger than a frame is still one batch with one position."""
    log = await owned(harness)
    size = harness.payload_bytes_max
    payloads = [b"a" * (size - 1), b"b" * size, b"c" * size + b"d" * size + b"e" * size + b"f", b"small"]
    batches = await written(log, payloads)
    found = await replayed(log)
    require(
        [len(data) for _, data in found] == [len(data) for data in payloads], "batches have other lengths"
    )
    require(found == batches, "a batch in parts is not what it was")
    edge = Extent(batches[2][0], size - 2, 4)
    require(await log.read([edge]) == [b"ccdd"], "an extent across the edge of parts has other bytes")
    require(await replayed(await reopened(harness, log)) == batches, "opening again changed a batch in parts")


async def trim(harness: LogHarness) -> None:
    """A trim may remove the batches before a position; the batch there and all later ones stay."""
    log = await owned(harness)
    batches = await written(log, BATCHES)
    for index in (3, 3, 7):
        through = batches[index][0]
        await log.trim(through)
        require(
            log.begins_after < through, f"after a trim to {through} the log begins after {log.begins_after}"
        )
        require(
            (await replayed(log))[-len(batches[index:]) :] == batches[index:], "a later batch was trimmed"
        )
        require(await log.checksum(through) is not None, "the batch at the position was trimmed")
    log = await reopened(harness, log)
    found = await replayed(log, batches[7][0])
    require(found == batches[8:], "opening again after a trim gives other batches")
    position = await log.append(b"later")
    require(position > batches[-1][0], "a position was used again after a trim")


async def checksum(harness: LogHarness) -> None:
    """Each frame has a checksum that never changes and tells copies of a log apart."""
    log = await owned(harness)
    batches = await written(log, [b"same", b"same", b"other"])
    sums = [await log.checksum(position) for position, _ in batches]
    require(None not in sums, "a frame has no checksum")
    require(len(set(sums)) == 3, "frames have the same checksum")
    require(await log.checksum(batches[-1][0] + 10_000) is None, "a frame that is not there has a checksum")
    log = await reopened(harness, log)
    require([await log.checksum(position) for position, _ in batches] == sums, "checksums have changed")


async def claim(harness: LogHarness) -> None:
    """A claim's position is the epoch: after all earlier batches, before all later ones, and not a batch."""
    log = await harness.open()
    first = await log.claim(Claimant("one"))
    before = await written(log, [b"a", b"b"])
    require(first < before[0][0], f"epoch {first} does not lie before position {before[0][0]}")
    await log.close()
    log = await harness.open()
    second = await log.claim(Claimant("two"))
    require(second > before[-1][0] and second > first, f"epoch {second} does not lie behind what was there")
    after = await written(log, [b"c"])
    require(second < after[0][0], f"epoch {second} does not lie before position {after[0][0]}")
    require(await replayed(log) == before + after, "a claim has added or hidden a batch")


async def closed(harness: LogHarness) -> None:
    """A closed log accepts no appends."""
    log = await owned(harness)
    batches = await written(log, [b"kept"])
    await log.close()
    try:
        await log.append(b"late")
    except LogError:
        pass
    else:
        raise LogSuiteError("a closed log took a batch")
    require(await replayed(await owned(harness, "two")) == batches, "a closed log has other batches")


async def fence(harness: LogHarness) -> None:
    """Only the last claimant can append; the others are told that their batches are certainly not there."""
    old = await owned(harness)
    batches = await written(old, [b"a", b"b"])
    if harness.exclusive:
        try:
            await harness.open()
        except LogError:
            batches += await written(old, [b"c"])
            require(await replayed(old) == batches, "a rival that was kept out has changed the log")
            return
        raise LogSuiteError("an exclusive log was opened twice")
    new = await owned(harness, "two")
    batches += await written(new, [b"c"])
    await require_fenced(old, "another has claimed the log")
    await require_fenced(old, "another has claimed the log, and it was said before")
    try:
        await old.prove()
    except LogFencedError:
        pass
    else:
        raise LogSuiteError("a fenced log proved itself")
    batches += await written(new, [b"d"])
    require(await replayed(new) == batches, "the fenced one has left something in the log")


ALWAYS = {
    "order": order,
    "bytes": exact_bytes,
    "positions": positions,
    "beginning": beginning,
    "extents": extents,
    "parts": parts,
    "trim": trim,
    "checksum": checksum,
    "claim": claim,
    "closed": closed,
    "fence": fence,
}
CASES = (
    *(LogCase(name, run, always_applies=True) for name, run in ALWAYS.items()),
    *(LogCase(name, run, always_applies=False) for name, run in fault_cases.CASES.items()),
)
"""Every case."""
