"""The table of effects in the format page is what the code writes."""

import re
from pathlib import Path
from typing import get_args

from durable_sessions.streams.effects import Effect

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "log.md"


def test_every_effect_is_documented_with_its_tag_and_fields_in_order() -> None:
    rows = re.findall(r"^\| (\d+) \| [a-z ]+ \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    documented = {int(tag): re.findall(r"`(\w+)`", fields) for tag, fields in rows}
    written = {kind.__struct_config__.tag: list(kind.__struct_fields__) for kind in get_args(Effect)}
    assert documented == written
