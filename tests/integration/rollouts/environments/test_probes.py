"""Objects of a configuration are probed in a process that may fail."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollouts.fleet.gateway import probes
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


def test_a_probe_reports_observation_and_action_space() -> None:
    outcome = probes.run_probe(environment("gymnasium:CartPole-v1"), seconds=120)

    assert outcome.trouble == ""
    assert (outcome.observation, outcome.action) == ("float32 [4]", "choices 2")
    assert outcome.bytes_per_step == 4 * 4 + 8


def test_an_exception_is_the_reason_of_a_failed_probe(odd: str) -> None:
    assert probes.run_probe(environment(odd), seconds=120).trouble == "SystemExit: 3"


def test_a_crash_is_reported(odd: str) -> None:
    outcome = probes.run_probe(environment(odd, does="die"), seconds=120)

    assert outcome.trouble == "its process was ended by SIGABRT"


def test_a_probe_has_a_timeout(odd: str) -> None:
    outcome = probes.run_probe(environment(odd, does="sleep"), seconds=3)

    assert outcome.trouble == "it did not finish within 3 s"


def test_a_probe_that_crashes_in_the_policy_keeps_the_environment_result(tmp_path: Path) -> None:
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


def test_no_secret_of_the_platform_reaches_environment_code(
    odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLDECK_SECRET_KEY", "shh")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "shh")

    outcome = probes.run_probe(environment(odd, does="read"), seconds=120)

    assert "HOME" in outcome.trouble
    for name in ("ROLLDECK_SECRET_KEY", "DATABASE_URL", "REDIS_URL", "RAY_AUTH_TOKEN"):
        assert os.environ.get(name), f"{name} is not set, so nothing was tried"
        assert name not in outcome.trouble


def test_packages_that_this_machine_lacks_are_separated() -> None:
    outcome = probes.run_probe(environment("module:nowhere:Env"), seconds=120)

    assert outcome.is_missing
    assert "ROLLDECK_ENVIRONMENTS" in outcome.trouble


def test_the_number_of_simultaneous_probes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    held = [probes._room.acquire(blocking=False) for _ in range(probes.PROBES_AT_ONCE)]
    try:
        with pytest.raises(probes.TooManyProbes):
            probes.run_probe(environment("gymnasium:CartPole-v1"), seconds=120)
    finally:
        for taken in held:
            if taken:
                probes._room.release()
