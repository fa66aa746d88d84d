"""Refusals say what the caller can do next, in the caller's words."""

import re
from datetime import UTC, datetime

import click
import pytest

from durable_sessions.cli.option_types import Future
from durable_sessions.client.calls import encode_events
from durable_sessions.errors import InvalidEventError
from durable_sessions.http.error_codes import STATUS_BY_CODE
from durable_sessions.http.openapi.errors import message
from durable_sessions.limits import Limits
from durable_sessions.sessions import drafts


def test_every_code_is_described() -> None:
    assert [code for code in STATUS_BY_CODE if not message(code)] == []


def test_what_is_no_event_is_told_so_by_the_client() -> None:
    for given in (5, None, [5]):
        with pytest.raises(TypeError, match="An event is a mapping such as"):
            encode_events(given)  # type: ignore[arg-type]


def test_the_example_of_an_expiry_lies_in_the_future() -> None:
    with pytest.raises(click.BadParameter, match="such as 30d") as refused:
        Future().convert("3x", None, None)
    days = re.findall(r"\d{4}-\d{2}-\d{2}", refused.value.message)
    assert len(days) == 2
    assert all(day > datetime.now(UTC).date().isoformat() for day in days)


@pytest.mark.parametrize("name", ["typ", "tpye", "types"])
def test_a_misspelt_type_is_recognised(name: str) -> None:
    with pytest.raises(InvalidEventError, match=f'Did you mean "type" in place of "{name}"'):
        drafts.parse(b'{"%b":"x"}' % name.encode(), Limits())


@pytest.mark.parametrize("body", [b'{"text":"x"}', b'{"type":""}', b'{"typ":"a","type":5}'])
def test_no_other_member_is_taken_for_it(body: bytes) -> None:
    with pytest.raises(InvalidEventError) as refused:
        drafts.parse(body, Limits())
    assert "Did you mean" not in str(refused.value)
