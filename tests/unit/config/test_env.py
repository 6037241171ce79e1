"""Settings from the environment are typed, and errors name the variable."""

from pathlib import Path

import pytest

from config import env


def test_a_secret_may_be_read_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from a file\n")
    monkeypatch.setenv("SERVER_SECRET", "from the environment")
    monkeypatch.setenv("SERVER_SECRET_FILE", str(tmp_path / "secret"))

    assert env.text("SERVER_SECRET") == "from a file"


def test_a_missing_variable_has_its_default() -> None:
    assert env.text("SERVER_MISSING", "default") == "default"
    assert env.integer("SERVER_MISSING", 7) == 7
    assert env.flag("SERVER_MISSING", default=True) is True
    assert env.word_list("SERVER_MISSING", "a, b,,c") == ["a", "b", "c"]


@pytest.mark.parametrize("value", ["eight", "8.5", "", "-1", "70000"])
def test_an_invalid_number_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("SERVER_PORT", value)

    with pytest.raises(env.InvalidSetting, match="SERVER_PORT"):
        env.integer("SERVER_PORT", 8000, at_least=1, at_most=65535)


def test_an_unknown_choice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_AUTH", "closed")

    with pytest.raises(env.InvalidSetting, match=r"SERVER_AUTH is 'closed'.*open, required"):
        env.choice("SERVER_AUTH", "open", of=("open", "required"))


@pytest.mark.parametrize(("value", "means"), [("1", True), ("Yes", True), ("off", False)])
def test_a_flag_is_true_or_false(monkeypatch: pytest.MonkeyPatch, value: str, means: bool) -> None:
    monkeypatch.setenv("SERVER_FLAG", value)

    assert env.flag("SERVER_FLAG") is means


def test_an_invalid_flag_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_FLAG", "maybe")

    with pytest.raises(env.InvalidSetting, match="SERVER_FLAG"):
        env.flag("SERVER_FLAG")


def test_a_missing_file_of_a_secret_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_SECRET_FILE", "/nowhere/secret")

    with pytest.raises(env.InvalidSetting, match="SERVER_SECRET_FILE is '/nowhere/s"):
        env.text("SERVER_SECRET")


def test_addresses_and_networks_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_PROXIES", "10.0.0.0/8, 127.0.0.1, fd00::/8")

    assert env.networks("SERVER_PROXIES") == ["10.0.0.0/8", "127.0.0.1", "fd00::/8"]
    assert env.networks("SERVER_MISSING") == []


@pytest.mark.parametrize("value", ["proxy", "10.0.0.1/8", "10.0.0.0/33", "127.0.0.1:80", "*"])
def test_other_texts_than_networks_are_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("SERVER_PROXIES", value)

    with pytest.raises(env.InvalidSetting, match=r"SERVER_PROXIES: .* neither an IP address"):
        env.networks("SERVER_PROXIES")
