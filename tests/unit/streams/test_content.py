import pytest

from durable_sessions.errors import InvalidHeaderError
from durable_sessions.streams import content


def test_parameters_and_case_do_not_matter() -> None:
    assert content.media_type("Application/JSON; charset=utf-8") == "application/json"
    assert content.is_json("APPLICATION/json ;x=y")
    assert not content.is_json("application/json-seq")
    assert content.is_text("Text/Markdown; charset=utf-8")


@pytest.mark.parametrize(
    "value", ["", "json", "a/", "/b", "a b/c", "a/b\x00", "a/b; é", "text/plain, text/html"]
)
def test_what_is_not_a_media_type_is_refused(value: str) -> None:
    with pytest.raises(InvalidHeaderError):
        content.check(value, 256)


def test_length_at_the_limit_and_one_past_it() -> None:
    fits = "a/" + "b" * 254
    assert content.check(fits, 256) == fits
    with pytest.raises(InvalidHeaderError):
        content.check(fits + "b", 256)
