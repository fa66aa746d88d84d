import re
from pathlib import Path

import pytest

from durable_sessions.log.file import FileLog
from tests.unit.log.support import segment_files

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "log.md"


@pytest.mark.anyio
async def test_the_example_is_what_is_written(tmp_path: Path) -> None:
    page = PAGE.read_text()
    lines = re.findall(r"^    ([0-9a-f]{2})  ((?:[0-9a-f]{2} )+) ", page, re.MULTILINE)
    shown = {int(offset, 16): bytes.fromhex(data) for offset, data in lines}
    log = await FileLog.open(tmp_path, salt=lambda: 0x1122334455667788)
    positions = [await log.append(b"first batch"), await log.append(b"second")]
    await log.close()
    log = await FileLog.open(tmp_path)
    await log.append(b"next segment")
    await log.close()
    first, second = segment_files(tmp_path)
    content = first.read_bytes()
    assert b"".join(shown.values()) == content
    assert all(content[offset:].startswith(data) for offset, data in shown.items())
    assert all(f"position {position}" in page for position in positions)
    assert all(f"`{path.name}`" in page for path in (first, second))
    assert f"has {len(content)} bytes" in page
