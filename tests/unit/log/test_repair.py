"""Replacing segments: whatever happens on the way, the log is old, new, or refuses to open."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from durable_sessions.errors import LogDamagedError, LogError
from durable_sessions.log.repair import complete, interrupted, replace_segments
from durable_sessions.log.scan import REPAIR_NAME
from tests.unit.log.support import contents, segment_files, stored, written

pytestmark = pytest.mark.anyio

OLD = [b"old %d" % number for number in range(6)]
NEW = [b"new %d" % number for number in range(5)]


class PowerCutError(Exception):
    """The power was cut."""


def cut_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Let the calls that change a directory fail after some of them."""
    left = steps

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*arguments: object, **options: object) -> object:
            nonlocal left
            if left == 0:
                raise PowerCutError
            left -= 1
            return call(*arguments, **options)

        return wrapped

    monkeypatch.setattr(os, "replace", counted(os.replace))
    monkeypatch.setattr(Path, "unlink", counted(Path.unlink))
    monkeypatch.setattr(Path, "open", counted(Path.open))


async def test_replacing(tmp_path: Path) -> None:
    old = await written(tmp_path, OLD, segment_bytes_max=60)
    first, *others = segment_files(tmp_path)
    base = int(others[0].stem)
    names = replace_segments(tmp_path, others, base, NEW, segment_bytes_max=100)
    assert [path.name for path in segment_files(tmp_path)] == [first.name, *names]
    found = await stored(tmp_path)
    kept = [batch for batch in old if batch[0] < base]
    assert found[: len(kept)] == kept
    assert [payload for _, payload in found[len(kept) :]] == NEW
    assert found[len(kept)][0] == base + 20
    assert not interrupted(tmp_path)
    assert list(tmp_path.glob("*.repaired")) == []


async def test_no_batches_at_all_still_make_a_log_that_goes_on(tmp_path: Path) -> None:
    replace_segments(tmp_path, [], 5_000, [])
    assert await stored(tmp_path) == [(5_020, b"")]
    assert (await written(tmp_path, [b"next"]))[0][0] > 5_020


@pytest.mark.parametrize("steps", range(16))
async def test_a_power_cut_at_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    old = await written(tmp_path, OLD, segment_bytes_max=60)
    before = contents(tmp_path)
    with monkeypatch.context() as patched:
        cut_after(patched, steps)
        try:
            replace_segments(tmp_path, segment_files(tmp_path), 0, NEW, segment_bytes_max=100)
            completed = True
        except PowerCutError:
            completed = False
    if interrupted(tmp_path):
        with pytest.raises(LogDamagedError):
            await stored(tmp_path)
        complete(tmp_path)
        completed = True
    elif not completed:
        assert contents(tmp_path) == before
    payloads = [payload for _, payload in (await stored(tmp_path))]
    assert payloads == (NEW if completed else [payload for _, payload in old])
    replace_segments(tmp_path, segment_files(tmp_path), 0, NEW)
    assert [payload for _, payload in await stored(tmp_path)] == NEW


async def test_a_note_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / REPAIR_NAME).write_bytes(b"{" * 100)
    with pytest.raises(LogError, match="interrupted repair"):
        complete(tmp_path)
