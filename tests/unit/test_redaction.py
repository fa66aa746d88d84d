"""Secrets by their look: replaced, counted, and never part of an id."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions import redaction
from durable_sessions.access.key import SECRET_PREFIX
from durable_sessions.redaction import Redactor

# Put together here, so that no scanner takes this file for a leak.
SECRETS = {
    "aws-access-key": "AKIA" + "ABCDEFGHIJKLMNOP",
    "google-api-key": "AIza" + "b" * 35,
    "anthropic-key": "sk-ant-" + "api03-" + "x" * 40,
    "openai-key": "sk-proj-" + "A1b2" * 10,
    "github-token": "ghp_" + "a1B2" * 9,
    "gitlab-token": "glpat-" + "a1B2c3D4e5F6g7H8i9J0",
    "slack-token": "xoxb-" + "123456789012-abcdefABCDEF",
    "stripe-key": "sk_live_" + "abcdEFGH12345678",
    "npm-token": "npm_" + "a1B2" * 9,
    "pypi-token": "pypi-" + "A" * 60,
    "huggingface-token": "hf_" + "aB" * 17,
    "json-web-token": "eyJhbGciOiJI" + ".eyJzdWIiOiIx" + ".SflKxwRJSMeK",
    "private-key": "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
    "durable-sessions-key": SECRET_PREFIX + "0123456789abcdef" * 4,
}


@pytest.mark.parametrize(("kind", "secret"), SECRETS.items())
def test_known_kinds(kind: str, secret: str) -> None:
    redactor = Redactor()
    cleaned = redactor.text(f"before {secret} after")
    assert secret not in cleaned
    assert cleaned.startswith(f"before [redacted {kind} ")
    assert cleaned.endswith("] after")
    assert redactor.found == {kind: 1}


@pytest.mark.parametrize(
    ("text", "kept", "secret"),
    [
        ("postgres://ada:s3cr3t-pw@db.example/app", "postgres://ada:", "s3cr3t-pw"),
        ("curl -H 'Authorization: Bearer abcdefghijklmnop'", "Authorization: Bearer ", "abcdefghijklmnop"),
        ('{"Authorization": "Bearer abcdefghijklmnop"}', '"Authorization": "Bearer ', "abcdefghijklmnop"),
        ("x-api-key: 0123456789abcdef", "x-api-key: ", "0123456789abcdef"),
        ("export DB_PASSWORD=hunter2hunter2", "DB_PASSWORD=", "hunter2hunter2"),
        ("AccountKey=" + "q" * 86 + "==;", "AccountKey=", "q" * 86),
        ("aws_secret_access_key = " + "k" * 40, "aws_secret_access_key = ", "k" * 40),
    ],
)
def test_only_the_secret_goes(text: str, kept: str, secret: str) -> None:
    cleaned = Redactor().text(text)
    assert kept in cleaned
    assert secret not in cleaned


@pytest.mark.parametrize(
    "text",
    [
        "Nothing to see: https://example.com/a:b?token=1",
        "The password is asked for by getpass().",
        "api_key = os.environ['KEY']",
        "PASSWORD=$DB_PASSWORD",
        "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "a risk-free desk-side disk-drive",
    ],
)
def test_what_is_no_secret(text: str) -> None:
    redactor = Redactor()
    assert redactor.text(text) == text
    assert not redactor.found


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("before", [16_384 - 10, 16_384, 3 * 16_384 - 1])
def test_long_texts_are_searched_in_slices_and_nothing_is_missed_between(kind: str, before: int) -> None:
    secret = SECRETS[kind]
    if kind == "json-web-token":
        secret = secret.replace(".eyJ", ".eyJ" + "c" * 9_000)
    text = "word " * (before // 5) + secret + " word" * 10_000
    redactor = Redactor()
    cleaned = redactor.text(text)
    assert redactor.found == {kind: 1}
    assert cleaned.replace("word", "").split()[0] == "[redacted"
    assert cleaned.count("word") == text.count("word")


@given(st.lists(st.sampled_from([*SECRETS.values(), "x" * 9_000, "token = ", '"', "\n"]), max_size=12))
def test_slices_find_what_one_search_finds(parts: list[str]) -> None:
    text = "secret " + " ".join(parts)
    for _, pattern in redaction._COMPILED:
        spans = [match.span() for match in redaction._matches(pattern, text)]
        assert spans == [match.span() for match in pattern.finditer(text)]


def test_same_secret_same_marker_and_again_nothing() -> None:
    redactor = Redactor()
    secret = SECRETS["github-token"]
    once = redactor.text(f"{secret} {secret}")
    assert len(set(once.replace("] [", "]|[").split("|"))) == 1
    assert redactor.text(once) == once


def test_events_keep_what_names_them() -> None:
    secret = SECRETS["anthropic-key"]
    event = {
        "id": "imp_1",
        "type": "x",
        "input": {"env": [f"KEY {secret}"], secret: 1},
        "source": {"file": "a"},
    }
    cleaned = Redactor().event(event)
    assert secret not in str(cleaned)
    assert (cleaned["id"], cleaned["source"]) == ("imp_1", {"file": "a"})
    untouched = {"id": "imp_2", "type": "x", "text": "fine"}
    assert Redactor().event(untouched) is untouched


@given(st.text(max_size=300))
def test_any_text_is_taken(text: str) -> None:
    once = Redactor().text(text)
    assert Redactor().text(once) == once
