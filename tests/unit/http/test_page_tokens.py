"""Page tokens: what was not given is refused, sealed or not."""

import base64

import msgspec
import pytest

from durable_sessions.errors import InvalidRequestError
from durable_sessions.http.api.sessions.page_tokens import UNSEALED, PageTokens

PLACES = [3, -1, 2**40]
OLD, NEW = b"o" * 32, b"n" * 32


def read(tokens: PageTokens, token: str) -> list[int]:
    return tokens.places(token, list[int], "server")


@pytest.mark.parametrize("tokens", [UNSEALED, PageTokens([NEW]), PageTokens([NEW, OLD])])
def test_a_token_says_what_was_put_into_it(tokens: PageTokens) -> None:
    assert read(tokens, tokens.token(PLACES)) == PLACES


def test_while_a_secret_is_replaced_tokens_of_both_are_taken() -> None:
    before, while_replaced, after = PageTokens([OLD]), PageTokens([NEW, OLD]), PageTokens([NEW])
    assert read(while_replaced, before.token(PLACES)) == PLACES
    assert read(after, while_replaced.token(PLACES)) == PLACES
    with pytest.raises(InvalidRequestError):
        read(after, before.token(PLACES))


def test_nobody_without_the_secret_makes_a_token_or_changes_one() -> None:
    sealed = PageTokens([NEW])
    token = sealed.token(PLACES)
    forged = [UNSEALED.token(PLACES), PageTokens([OLD]).token(PLACES), "", "AAAA"]
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    for at in range(len(raw)):
        changed = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
        forged.append(base64.urlsafe_b64encode(changed).rstrip(b"=").decode())
    for one in forged:
        with pytest.raises(InvalidRequestError, match="page is not one that this server gave"):
            read(sealed, one)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "nonsense",
        "a b",
        UNSEALED.token(PLACES) + "!",
        UNSEALED.token({"a": 1}),
        base64.urlsafe_b64encode(msgspec.msgpack.encode(PLACES) + b"\0").decode(),
        "A" * 8_193,
    ],
    ids=["empty", "nonsense", "space", "behind", "another shape", "more bytes", "too long"],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidRequestError, match="page is not one that this server gave"):
        read(UNSEALED, token)
