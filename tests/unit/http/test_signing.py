import base64
import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from durable_sessions.errors import SettingsError, TokenExpiredError, TokenInvalidError
from durable_sessions.http.api.signing import SigningKeys
from durable_sessions.streams.subscriptions import SubscriptionKey

SUB = SubscriptionKey("w", "sub")
NOW = 1_700_000_000


@pytest.fixture
def signing_keys() -> SigningKeys:
    return SigningKeys(bytes(range(32)), b"s" * 32)


def unpadded(text: str) -> bytes:
    assert "=" not in text
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_a_signature_can_be_checked_with_the_published_key(signing_keys: SigningKeys) -> None:
    header = signing_keys.signature(b'{"a":1}', NOW)
    fields = dict(part.split("=", 1) for part in header.split(","))
    (key,) = json.loads(signing_keys.jwks)["keys"]
    assert {name: key[name] for name in ("kty", "crv", "alg", "use")} == {
        "kty": "OKP",
        "crv": "Ed25519",
        "alg": "EdDSA",
        "use": "sig",
    }
    assert fields["kid"] == key["kid"] == signing_keys.kid
    public = Ed25519PublicKey.from_public_bytes(unpadded(key["x"]))
    public.verify(unpadded(fields["ed25519"]), f'{fields["t"]}.{{"a":1}}'.encode())
    with pytest.raises(InvalidSignature):
        public.verify(unpadded(fields["ed25519"]), f'{int(fields["t"]) + 1}.{{"a":1}}'.encode())


def test_the_key_id_is_the_thumbprint_of_the_key(signing_keys: SigningKeys) -> None:
    (key,) = json.loads(signing_keys.jwks)["keys"]
    members = json.dumps({name: key[name] for name in ("crv", "kty", "x")}, separators=(",", ":"))
    assert signing_keys.kid.startswith("ds_")
    assert unpadded(signing_keys.kid.removeprefix("ds_")) == hashlib.sha256(members.encode()).digest()


# Tokens -----------------------------------------------------------------------------------


def test_a_token_is_for_one_subscription_until_it_expires(signing_keys: SigningKeys) -> None:
    token = signing_keys.issue_token(SUB, 7, NOW + 10)
    assert signing_keys.check_token(token, SUB, NOW + 9) == 7
    with pytest.raises(TokenExpiredError):
        signing_keys.check_token(token, SUB, NOW + 10)
    for other in (SubscriptionKey("w", "other"), SubscriptionKey("v", "sub"), SubscriptionKey("ws", "ub")):
        with pytest.raises(TokenInvalidError):
            signing_keys.check_token(token, other, NOW)
    with pytest.raises(TokenInvalidError):
        SigningKeys(bytes(range(32)), b"t" * 32).check_token(token, SUB, NOW)


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
def test_a_forged_token_is_refused(signing_keys: SigningKeys, forge: object) -> None:
    assert callable(forge)
    with pytest.raises(TokenInvalidError):
        signing_keys.check_token(forge(signing_keys.issue_token(SUB, 7, NOW + 10)), SUB, NOW)


def test_a_token_tells_its_workspace(signing_keys: SigningKeys) -> None:
    key = SubscriptionKey("some.place", "sub")
    token = signing_keys.issue_token(key, 7, NOW + 10)
    assert signing_keys.workspace(token, "sub", NOW) == "some.place"
    with pytest.raises(TokenInvalidError):
        signing_keys.workspace(token, "other", NOW)
    with pytest.raises(TokenExpiredError):
        signing_keys.workspace(token, "sub", NOW + 10)
    rest = token.partition(".")[2]
    for claim in ("", "dw", "!", "é", "_w", "a", signing_keys.issue_token(SUB, 7, NOW).partition(".")[0]):
        with pytest.raises(TokenInvalidError):
            signing_keys.workspace(f"{claim}.{rest}", "sub", NOW)


# The file -----------------------------------------------------------------------------------


def test_keys_are_made_once_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "signing-keys.json"
    first = SigningKeys.open(path)
    assert path.stat().st_mode & 0o777 == 0o600
    again = SigningKeys.open(path)
    assert again.kid == first.kid
    assert again.check_token(first.issue_token(SUB, 1, NOW + 1), SUB, NOW) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["signing-keys.json"]
    assert SigningKeys.open(tmp_path / "other.json").kid != first.kid


def test_the_file_of_an_earlier_version_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = SigningKeys.open(tmp_path / "signing-keys.json")
    (tmp_path / "signing-keys.json").rename(tmp_path / "keys.json")
    synced: list[list[str]] = []
    sync = os.fsync

    def recorded(descriptor: int) -> None:
        synced.append(sorted(file.name for file in tmp_path.iterdir()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    again = SigningKeys.open(tmp_path / "signing-keys.json")
    assert again.kid == first.kid
    assert again.check_token(first.issue_token(SUB, 1, NOW + 1), SUB, NOW) == 1
    assert synced == [["signing-keys.json"]]  # the directory, after the file was renamed
    assert (tmp_path / "signing-keys.json").stat().st_mode & 0o777 == 0o600


def test_keys_that_an_earlier_version_made_later_replace_nothing(tmp_path: Path) -> None:
    ours = SigningKeys.open(tmp_path / "signing-keys.json").kid
    theirs = SigningKeys.open(tmp_path / "keys.json").kid
    assert ours != theirs
    assert SigningKeys.open(tmp_path / "signing-keys.json").kid == ours
    assert (tmp_path / "keys.json").exists()


def test_a_killed_first_start_does_not_stop_the_next(tmp_path: Path) -> None:
    (tmp_path / "signing-keys.json.new").write_bytes(b"half")
    SigningKeys.open(tmp_path / "signing-keys.json")
    assert not (tmp_path / "signing-keys.json.new").exists()
    assert (tmp_path / "signing-keys.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("is_renamed", [False, True], ids=["new", "renamed"])
def test_workers_that_start_together_on_an_empty_directory_have_the_same_keys(
    tmp_path: Path, is_renamed: bool
) -> None:
    together = 8
    for attempt in range(20):
        path = tmp_path / str(attempt) / "signing-keys.json"
        path.parent.mkdir()
        if is_renamed:
            SigningKeys.open(path.with_name("keys.json"))
        gate = Barrier(together)

        def start(path: Path = path, gate: Barrier = gate) -> str:
            gate.wait()
            return SigningKeys.open(path).kid

        with ThreadPoolExecutor(together) as workers:
            kids = {started.result() for started in [workers.submit(start) for _ in range(together)]}
        assert kids == {SigningKeys.open(path).kid}
        assert [file.name for file in path.parent.iterdir()] == [path.name]


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
    path = tmp_path / "signing-keys.json"
    SigningKeys.open(path)
    damaged = damage(path.read_bytes())
    path.write_bytes(damaged)
    with pytest.raises(SettingsError, match=r"signing-keys\.json is damaged"):
        SigningKeys.open(path)
    assert path.read_bytes() == damaged


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be made"):
        SigningKeys.open(tmp_path / "missing" / "signing-keys.json")
    with pytest.raises(SettingsError, match="cannot be read"):
        SigningKeys.open(tmp_path)
