from pathlib import Path

import pytest

from durable_sessions.errors import SettingsError
from durable_sessions.limits import Limits
from durable_sessions.retention_policy import RetentionPolicy
from durable_sessions.settings import Settings, load


def test_the_command_line_wins_over_the_environment_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "ds.toml"
    file.write_text('port = 1\nhost = "file"\nmemory_bytes = "1GiB"\nlong_poll_seconds = 3\n')
    settings = load(
        {"port": "3", "host": None}, {"DURABLE_SESSIONS_PORT": "2", "DURABLE_SESSIONS_HOST": "env"}, file
    )
    assert (settings.port, settings.host, settings.memory_bytes) == (3, "env", 2**30)
    assert settings.long_poll_seconds == 3.0
    assert settings.limits().memory_bytes_max == 2**30
    assert load({}, {}, None) == Settings()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("prot = 1", "'port'"),
        ("long-poll-seconds = 1", "'long_poll_seconds'"),
        ('[server]\nhost = "x"', "unknown"),
    ],
)
def test_an_unknown_key_is_refused_and_the_nearest_is_named(tmp_path: Path, text: str, hint: str) -> None:
    file = tmp_path / "ds.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=hint):
        load({}, {}, file)


def test_an_unknown_variable_is_refused_and_the_nearest_is_named() -> None:
    with pytest.raises(SettingsError, match="DURABLE_SESSIONS_MEMORY_BYTES"):
        load({}, {"DURABLE_SESSIONS_MEMORY": "1"}, None)
    load({}, {"DURABLE_SESSIONS_URL": "http://x", "DURABLE_SESSIONS_API_KEY": "k", "OTHER": "1"}, None)


@pytest.mark.parametrize(
    "options",
    [
        {"port": "70000"},
        {"port": "-1"},
        {"port": "x"},
        {"long_poll_seconds": "0"},
        {"long_poll_seconds": "nan"},
        {"memory_bytes": "1TB"},
        {"memory_bytes": "-1"},
        {"connections": "0"},
        {"log_level": "loud"},
        {"log_format": "xml"},
        {"public_url": "example.com"},
        {"workspace": ""},
        {"workspace": "a/b"},
        {"workspace": "Upper"},
        {"workspace_streams": "-1"},
        {"workspace_bytes": "1TB"},
        {"artifact_bytes": "x"},
    ],
)
def test_a_bad_value_is_refused_with_what_to_write(options: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=r"write (?!.*(could not convert|invalid literal))"):
        load(options, {}, None)


def test_a_secret_is_never_shown(tmp_path: Path) -> None:
    settings = load({}, {"DURABLE_SESSIONS_API_KEY": "quite-secret"}, None)
    assert settings.api_key == "quite-secret"
    assert "quite-secret" not in repr(settings)
    with pytest.raises(SettingsError, match="printable ASCII") as refused:
        load({}, {"DURABLE_SESSIONS_API_KEY": "quite secret"}, None)
    assert "quite" not in str(refused.value)


def test_the_limits_of_artifacts_leave_room_for_two_of_the_largest() -> None:
    limits = load({"artifact_bytes": "1GiB"}, {}, None).limits()
    assert limits.artifact_bytes_max == 2**30
    assert limits.incomplete_artifact_bytes_max == limits.artifact_memory_bytes_max == 2 * 2**30
    assert Settings().limits() == Limits()


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    file = tmp_path / "ds.toml"
    file.write_text("port = ")
    with pytest.raises(SettingsError, match=r"ds\.toml"):
        load({}, {}, file)
    with pytest.raises(SettingsError, match=r"missing\.toml"):
        load({}, {}, tmp_path / "missing.toml")


def test_wrong_types_in_the_file_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "ds.toml"
    for text in ("port = true", "host = 5", "memory_bytes = false", "port = 1.5"):
        file.write_text(text)
        with pytest.raises(SettingsError):
            load({}, {}, file)


def test_retention_policies_come_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "ds.toml"
    file.write_text(
        '[[retention]]\nprefix = "agents/"\nidle_days = 30\n'
        '[[retention]]\nprefix = "tests/"\nidle_days = 0.5\n'
        '[[retention]]\nprefix = "both/"\nidle_days = 2\nclosed_days = 0.25\n'
        '[[retention]]\nprefix = ""\nkeep = true\n'
        '[[retention]]\nprefix = "legal/"\nhold = true\n'
    )
    assert load({}, {}, file).retention == (
        RetentionPolicy("agents/", idle_days=30.0),
        RetentionPolicy("tests/", idle_days=0.5),
        RetentionPolicy("both/", idle_days=2.0, closed_days=0.25),
        RetentionPolicy("", keep=True),
        RetentionPolicy("legal/", hold=True),
    )
    assert load({}, {}, None).retention == ()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("retention = 5", r"\[\[retention\]\]"),
        ("retention = [1]", r"\[\[retention\]\]"),
        ("[[retention]]\nidle_days = 1", "prefix"),
        ("[[retention]]\nprefix = 1\nkeep = true", "prefix"),
        ('[[retention]]\nprefix = "/a"\nkeep = true', "slash"),
        ('[[retention]]\nprefix = "a"', "one of idle_days, closed_days, keep and hold"),
        (
            '[[retention]]\nprefix = "a"\nkeep = true\nhold = true',
            "one of idle_days, closed_days, keep and hold",
        ),
        ('[[retention]]\nprefix = "a"\nkeep = false', "keep = true"),
        ('[[retention]]\nprefix = "a"\nhold = "yes"', "hold = true"),
        ('[[retention]]\nprefix = "a"\nidle_days = 0', "above 0"),
        ('[[retention]]\nprefix = "a"\nclosed_days = 0', "closed_days above 0"),
        ('[[retention]]\nprefix = "a"\nclosed_days = 1\nhold = true', "only the first two"),
        ('[[retention]]\nprefix = "a"\nidle_days = nan', "above 0"),
        ('[[retention]]\nprefix = "a"\nidle_days = 36601', "36600"),
        ('[[retention]]\nprefix = "a"\nidle_days = "30"', "above 0"),
        ('[[retention]]\nprefix = "a"\nidle_day = 1', "'idle_days'"),
        ('[[retention]]\nprefix = "a"\nkeep = true\n[[retention]]\nprefix = "a"\nhold = true', "one table"),
    ],
)
def test_a_bad_retention_policy_is_refused_with_what_to_write(tmp_path: Path, text: str, hint: str) -> None:
    file = tmp_path / "ds.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=hint):
        load({}, {}, file)


def test_retention_has_no_variable() -> None:
    with pytest.raises(SettingsError, match="DURABLE_SESSIONS_RETENTION is unknown"):
        load({}, {"DURABLE_SESSIONS_RETENTION": "[]"}, None)


def test_a_value_is_refused_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "ds.toml"
    file.write_text('port = "x"')
    for options, environment, config, said in (
        ({"long_poll_seconds": "x"}, {}, None, "--long-poll-seconds x is not usable: write "),
        ({}, {"DURABLE_SESSIONS_PORT": "x"}, None, "DURABLE_SESSIONS_PORT=x is not usable: write "),
        ({}, {}, file, f"port = 'x' in {file} is not usable: write "),
        (
            {},
            {},
            tmp_path / "none.toml",
            f"{tmp_path / 'none.toml'} cannot be read: No such file or directory.",
        ),
    ):
        with pytest.raises(SettingsError) as refused:
            load(options, environment, config)
        assert said in str(refused.value)
