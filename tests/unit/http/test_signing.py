import base64
import hashlib
import json
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from durable_sessions.errors import SettingsError, TokenExpiredError, TokenInvalidError
from durable_sessions.http.api.signing import Keyring
from durable_sessions.streams.subscriptions import SubscriptionKey

SUB = SubscriptionKey("w", "sub")
NOW = 1_700_000_000


@pytest.fixture
def keyring() -> Keyring:
    return Keyring(bytes(range(32)), b"s" * 32)


def unpadded(text: str) -> bytes:
    assert "=" not in text
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_a_signature_can_be_checked_with_the_published_key(keyring: Keyring) -> None:
    header = keyring.signature(b'{"a":1}', NOW)
    fields = dict(part.split("=", 1) for part in header.split(","))
    (key,) = json.loads(keyring.jwks)["keys"]
    assert {name: key[name] for name in ("kty", "crv", "alg", "use")} == {
        "kty": "OKP",
        "crv": "Ed25519",
        "alg": "EdDSA",
        "use": "sig",
    }
    assert fields["kid"] == key["kid"] == keyring.kid
    public = Ed25519PublicKey.from_public_bytes(unpadded(key["x"]))
    public.verify(unpadded(fields["ed25519"]), f'{fields["t"]}.{{"a":1}}'.encode())
    with pytest.raises(InvalidSignature):
        public.verify(unpadded(fields["ed25519"]), f'{int(fields["t"]) + 1}.{{"a":1}}'.encode())


def test_the_key_id_is_the_thumbprint_of_the_key(keyring: Keyring) -> None:
    (key,) = json.loads(keyring.jwks)["keys"]
    members = json.dumps({name: key[name] for name in ("crv", "kty", "x")}, separators=(",", ":"))
    assert keyring.kid.startswith("ds_")
    assert unpadded(keyring.kid.removeprefix("ds_")) == hashlib.sha256(members.encode()).digest()


# Tokens -----------------------------------------------------------------------------------


def test_a_token_is_for_one_subscription_until_it_expires(keyring: Keyring) -> None:
    token = keyring.issue_token(SUB, 7, NOW + 10)
    assert keyring.check_token(token, SUB, NOW + 9) == 7
    with pytest.raises(TokenExpiredError):
        keyring.check_token(token, SUB, NOW + 10)
    for other in (SubscriptionKey("w", "other"), SubscriptionKey("v", "sub"), SubscriptionKey("ws", "ub")):
        with pytest.raises(TokenInvalidError):
            keyring.check_token(token, other, NOW)
    with pytest.raises(TokenInvalidError):
        Keyring(bytes(range(32)), b"t" * 32).check_token(token, SUB, NOW)


@pytest.mark.parametrize(
    "forge",
    [
        lambda token: "",
        lambda token: "..",
        lambda token: token + ".",
        lambda token: token + "x",
        lambda token: token[:-1],
        lambda token: token.replace("7.", "8.", 1),
        lambda token: token.replace(f"{NOW + 10}", f"{NOW + 99}"),
        lambda token: "dw." + "9" * 5000 + ".1.x",
        lambda token: token.partition(".")[2],
        lambda token: "dg." + token.partition(".")[2],
        lambda token: "." + token.partition(".")[2],
        lambda token: token.replace(".", "é", 1),
        lambda token: "a.b.c",
    ],
)
def test_a_forged_token_is_refused(keyring: Keyring, forge: object) -> None:
    assert callable(forge)
    with pytest.raises(TokenInvalidError):
        keyring.check_token(forge(keyring.issue_token(SUB, 7, NOW + 10)), SUB, NOW)


def test_a_token_tells_its_workspace(keyring: Keyring) -> None:
    key = SubscriptionKey("some.place", "sub")
    token = keyring.issue_token(key, 7, NOW + 10)
    assert keyring.workspace(token, "sub", NOW) == "some.place"
    with pytest.raises(TokenInvalidError):
        keyring.workspace(token, "other", NOW)
    with pytest.raises(TokenExpiredError):
        keyring.workspace(token, "sub", NOW + 10)
    rest = token.partition(".")[2]
    for claim in ("", "dw", "!", "é", "_w", "a", keyring.issue_token(SUB, 7, NOW).partition(".")[0]):
        with pytest.raises(TokenInvalidError):
            keyring.workspace(f"{claim}.{rest}", "sub", NOW)


# The file -----------------------------------------------------------------------------------


def test_keys_are_made_once_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    first = Keyring.open(path)
    assert path.stat().st_mode & 0o777 == 0o600
    again = Keyring.open(path)
    assert again.kid == first.kid
    assert again.check_token(first.issue_token(SUB, 1, NOW + 1), SUB, NOW) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["keys.json"]
    assert Keyring.open(tmp_path / "other.json").kid != first.kid


def test_a_killed_first_start_does_not_stop_the_next(tmp_path: Path) -> None:
    (tmp_path / "keys.json.new").write_bytes(b"half")
    Keyring.open(tmp_path / "keys.json")
    assert not (tmp_path / "keys.json.new").exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-10],
        lambda content: content.replace(b'"version":1', b'"version":2'),
        lambda content: b'{"version":1,"ed25519_seed":"AAAA","token_secret":"AAAA"}',
        lambda content: b"[]",
    ],
)
def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    path = tmp_path / "keys.json"
    Keyring.open(path)
    damaged = damage(path.read_bytes())
    path.write_bytes(damaged)
    with pytest.raises(SettingsError, match=r"keys\.json is damaged"):
        Keyring.open(path)
    assert path.read_bytes() == damaged


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be made"):
        Keyring.open(tmp_path / "missing" / "keys.json")
    with pytest.raises(SettingsError, match="cannot be read"):
        Keyring.open(tmp_path)
