"""How deep a message nests is told in windows, wherever strings, escapes and brackets are cut."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.errors import InvalidJsonError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.streams import messages

texts = st.text(alphabet='ab"\\[]{}\n\u00e9', max_size=12)
values = st.recursive(
    texts | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=30,
)


def depth(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


def passes(raw: bytes, deepest: int) -> bool:
    try:
        messages.check_depth(raw, replace(DEFAULT_LIMITS, json_depth_max=deepest))
    except InvalidJsonError:
        return False
    return True


@given(values, st.integers(1, 20), st.booleans())
def test_the_depth_is_found_wherever_the_windows_end(value: Any, window: int, escaped: bool) -> None:
    raw = json.dumps(value, ensure_ascii=escaped).encode()
    found = depth(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "_WINDOW_BYTES", window)
        assert passes(raw, found)
        assert found == 0 or not passes(raw, found - 1)


def test_a_long_run_of_backslashes_is_not_cut() -> None:
    raw = b'["%b",[[1]]]' % (b"\\\\" * 100_000 + b'\\"[[[')
    assert passes(raw, 3)
    assert not passes(raw, 2)
