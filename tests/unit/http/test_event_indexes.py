"""Headers that list events by index: short, exact while they fit, and marked where they do not."""

import pytest

from durable_sessions.http.api.sessions.event_indexes import written


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        ([], ""),
        ([7], "7"),
        ([1, 2], "1,2"),
        ([1, 2, 3], "1-3"),
        ([0, 2, 3, 4, 9, 10], "0,2-4,9,10"),
        (range(1_000), "0-999"),
    ],
)
def test_runs_of_three_or_more_are_shortened(indexes: list[int], text: str) -> None:
    assert written(indexes, 1_000) == text


def test_a_list_that_fits_exactly_is_complete() -> None:
    assert written([10, 20, 30], len("10,20,30")) == "10,20,30"


@pytest.mark.parametrize("bytes_max", range(3, len("10,20,30,40")))
def test_a_list_that_does_not_fit_ends_with_dots_after_a_whole_index(bytes_max: int) -> None:
    text = written([10, 20, 30, 40], bytes_max)
    assert len(text) <= bytes_max
    assert text.endswith("...")
    shown = text.removesuffix("...")
    assert "10,20,30,40,".startswith(shown)
    assert not shown or shown.endswith(",")
