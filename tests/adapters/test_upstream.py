"""What runs the tests of others: nothing that changes in their results goes by unseen."""

from pathlib import Path

import pytest

from tests.adapters.upstream import Suite
from tests.support.told import RAN_AGAIN, UNSETTLED

TESTS = """
import pathlib
import pytest

def test_good():
    pass

@pytest.mark.parametrize("word", ["a.b", "c"])
def test_words(word):
    assert word == "c"

class TestSecond:
    def test_alone(self):
        marker = pathlib.Path("ran")
        first = not marker.exists()
        marker.touch()
        assert not first

def test_skipped():
    raise pytest.skip.Exception("not here")
"""
FILE = "tests/test_theirs.py"
BAD, ALONE = f"{FILE}::test_words[a.b]", f"{FILE}::TestSecond::test_alone"


@pytest.fixture
def told() -> list[tuple[str, object]]:
    return []


@pytest.fixture
def suite(tmp_path: Path, told: list[tuple[str, object]]) -> Suite:
    (tmp_path / "tests").mkdir()
    (tmp_path / FILE).write_text(TESTS)
    (tmp_path / "their_in_place.py").touch()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return Suite(tmp_path, "their", "http://127.0.0.1:1", lambda name, value: told.append((name, value)))


def test_what_passes_the_second_time_only_is_counted_and_told(
    suite: Suite, told: list[tuple[str, object]]
) -> None:
    suite.check([FILE], passing=3, failing={BAD: "wants a c"})
    assert told == [(RAN_AGAIN, f"their: {ALONE}")]


def test_an_unsettled_test_is_told_and_counts_nowhere(suite: Suite, told: list[tuple[str, object]]) -> None:
    suite.check([FILE], passing=2, failing={BAD: "wants a c"}, unsettled={ALONE: "needs to be alone"})
    assert told == [(UNSETTLED, f"{ALONE}: failed (needs to be alone)")]
    with pytest.raises(AssertionError, match="no such tests"):
        suite.check([FILE], passing=3, failing={BAD: "wants a c"}, unsettled={f"{FILE}::test_gone": "gone"})


def test_a_failure_that_is_not_expected_is_one(suite: Suite) -> None:
    with pytest.raises(AssertionError, match=r"test_words\[a.b\]"):
        suite.check([FILE], passing=3, failing={})


def test_an_expected_failure_that_passes_is_one(suite: Suite) -> None:
    with pytest.raises(AssertionError, match="were expected to fail"):
        suite.check([FILE], passing=3, failing={BAD: "wants a c", f"{FILE}::test_good": "is not good"})


@pytest.mark.parametrize("options", [["-k", "test_good"], ["-k", "nothing"]], ids=["fewer", "none"])
def test_too_few_tests_are_a_failure(suite: Suite, options: list[str]) -> None:
    with pytest.raises(AssertionError, match="tests passed, and 3 should"):
        suite.check([FILE], passing=3, failing={}, options=options)
