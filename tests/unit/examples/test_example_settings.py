"""Every hyperparameter of the PPO examples is an option, with the default of its settings."""

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from examples import impala_chunks, ppo_cartpole, ppo_continuous, ppo_recurrent

Settings = Callable[[], Any]


def cartpole() -> ppo_cartpole.PpoSettings:
    return ppo_cartpole.settings_of(ppo_cartpole.argument_parser().parse_args())


def continuous() -> ppo_continuous.PpoSettings:
    return ppo_continuous.settings_of(ppo_continuous.parse_args())


def recurrent() -> ppo_recurrent.PpoSettings:
    return ppo_recurrent.settings_of(ppo_recurrent.parse_args())


def impala() -> ppo_recurrent.PpoSettings:
    return ppo_recurrent.settings_of(ppo_recurrent.parse_args(impala_chunks.SETTINGS))


DEFAULTS: dict[Settings, Any] = {
    cartpole: ppo_cartpole.PpoSettings(),
    continuous: ppo_continuous.PpoSettings(),
    recurrent: ppo_recurrent.PpoSettings(),
    impala: impala_chunks.SETTINGS,
}


@pytest.mark.parametrize("settings", DEFAULTS)
def test_every_hyperparameter_has_an_option(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = {name: x for name, x in asdict(DEFAULTS[settings]).items() if not isinstance(x, str)}
    options = [f"--{name.replace('_', '-')}={x + 1}" for name, x in numbers.items()]

    monkeypatch.setattr(sys, "argv", ["trainer", "--run", "demo"])
    assert settings() == DEFAULTS[settings]
    monkeypatch.setattr(sys, "argv", ["trainer", "--run", "demo", *options])
    given = asdict(settings())

    assert {name: given[name] for name in numbers} == {name: x + 1 for name, x in numbers.items()}


def test_an_unknown_estimator_of_advantages_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["trainer", "--run", "demo", "--advantages", "td"])

    with pytest.raises(SystemExit):
        cartpole()
    assert "--advantages: invalid choice: 'td'" in capsys.readouterr().err
