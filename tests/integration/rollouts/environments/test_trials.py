"""Objects of a configuration are probed in a process that may fail."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollouts.environments.services import probes
from rollouts.fleet.probe.messages import Outcome, ProbeRequest

FOREIGN = """
import os, sys, time

class Odd:
    def __init__(self, does="print"):
        if does == "die":
            os.abort()
        if does == "sleep":
            time.sleep(3600)
        if does == "read":
            raise RuntimeError(" ".join(sorted(os.environ)))
        print("to all listeners", flush=True)
        sys.exit(3)
"""
SPEC = "module:odd_for_trials:Odd"


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "odd_for_trials.py").write_text(FOREIGN)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setenv("ROLLDECK_ENVIRONMENTS", SPEC)
    yield SPEC
    assert "odd_for_trials" not in sys.modules, "this process has imported it"


def environment(spec: str, **kwargs: object) -> ProbeRequest:
    return ProbeRequest(kind="environment", spec=spec, kwargs=kwargs)


def test_an_environment_says_what_it_shows_and_takes() -> None:
    outcome = probes.attempt(environment("gymnasium:CartPole-v1"), seconds=120)

    assert outcome.trouble == ""
    assert (outcome.observation, outcome.action) == ("float32 [4]", "choices 2")
    assert outcome.bytes_per_step == 4 * 4 + 8


def test_what_it_raises_becomes_its_trouble(odd: str) -> None:
    assert probes.attempt(environment(odd), seconds=120).trouble == "SystemExit: 3"


def test_a_crash_is_reported(odd: str) -> None:
    outcome = probes.attempt(environment(odd, does="die"), seconds=120)

    assert outcome.trouble == "its process was ended by SIGABRT"


def test_what_takes_too_long_is_ended(odd: str) -> None:
    outcome = probes.attempt(environment(odd, does="sleep"), seconds=3)

    assert outcome.trouble == "it did not finish within 3 s"


def test_a_probe_that_dies_in_the_policy_keeps_what_is_known_of_the_environment(
    tmp_path: Path,
) -> None:
    answer = tmp_path / "answer"
    first = Outcome(observation="float32 [4]", stage="policy")
    answer.write_bytes(msgspec.json.encode(first) + b"\n" + b'{"half": ')

    outcome = probes._read(answer, -6)

    assert (outcome.trouble, outcome.observation) == ("", "float32 [4]")
    assert outcome.policy_trouble == "its process was ended by SIGABRT"
    assert outcome.stage == ""


@pytest.mark.parametrize("stage", ["wrappers", "step_callbacks"])
def test_a_probe_that_hangs_in_an_extension_names_its_field(tmp_path: Path, stage: Any) -> None:
    answer = tmp_path / "answer"
    field = f"environment.{stage}"
    first = Outcome(stage=stage, field=field)
    answer.write_bytes(msgspec.json.encode(first) + b"\n")

    outcome = probes._interrupted(answer, "it did not finish within 20 s")

    assert outcome == Outcome(trouble="it did not finish within 20 s", field=field)


def test_no_secret_of_the_platform_reaches_foreign_code(
    odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLDECK_SECRET_KEY", "shh")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "shh")

    outcome = probes.attempt(environment(odd, does="read"), seconds=120)

    assert "HOME" in outcome.trouble
    for name in ("ROLLDECK_SECRET_KEY", "DATABASE_URL", "REDIS_URL", "RAY_AUTH_TOKEN"):
        assert os.environ.get(name), f"{name} is not set, so nothing was tried"
        assert name not in outcome.trouble


def test_packages_that_this_machine_lacks_are_separated() -> None:
    outcome = probes.attempt(environment("module:nowhere:Env"), seconds=120)

    assert outcome.is_missing
    assert "ROLLDECK_ENVIRONMENTS" in outcome.trouble


def test_no_more_than_a_few_are_tried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    held = [probes._room.acquire(blocking=False) for _ in range(probes.TRIALS_AT_ONCE)]
    try:
        with pytest.raises(probes.TooManyProbes):
            probes.attempt(environment("gymnasium:CartPole-v1"))
    finally:
        for taken in held:
            if taken:
                probes._room.release()
