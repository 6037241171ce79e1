"""The diagnosis of runs that were driven into a known state, from recorded measurements.

``tests/diagnosis_cases`` drives real runs and records them.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rollouts.diagnosis.rules.bottleneck import diagnose
from rollouts.diagnosis.rules.diagnosis import Diagnosis
from rollouts.diagnosis.rules.flow import Facts, SlowestWorker, StageFlow, stages
from tests.diagnosis_cases.cases import CASES
from web.rules.amounts import percent

FOLDER = Path(__file__).parent / "cases"
EVALUATED_EVERY_SECONDS = 10.0
Shown = Mapping[str, StageFlow]


def facts_of(sample: dict[str, Any]) -> Facts:
    slowest = sample["slowest_worker"]
    return Facts(**sample | {"slowest_worker": slowest and SlowestWorker(**slowest)})


def replayed(name: str) -> list[tuple[Facts, Diagnosis]]:
    """Return the diagnosis of each sample of a case, with the kind recorded as on the server."""
    case = json.loads((FOLDER / f"{name}.json").read_text())
    every = EVALUATED_EVERY_SECONDS / case["interval_seconds"]
    previous, found = "", []
    for number, sample in enumerate(case["samples"]):
        facts = facts_of(sample)
        diagnosis = diagnose(facts, previous=previous)
        found.append((facts, diagnosis))
        if number % every == 0:
            previous = diagnosis.kind
    return found


@pytest.mark.parametrize("name", CASES)
def test_every_sample_of_a_case_has_its_diagnosis(name: str) -> None:
    kinds = [diagnosis.kind for _, diagnosis in replayed(name)]

    assert len(kinds) >= 24  # two minutes
    assert set(kinds) == {CASES[name][1]}


def busiest_worker_stage(shown: Shown) -> str:
    return max((shown[name].share or 0.0, name) for name in ("step", "exchange", "infer"))[1]


def trainer_waits(shown: Shown) -> float:
    return shown["train"].waits or 0.0


def workers_wait(shown: Shown, cause: str) -> float:
    """Return the share of the time in which workers wait, if the page names this cause."""
    stage = shown["infer"]
    return (stage.waits or 0.0) if stage.waits_for == cause else 0.0


def is_idle(shown: Shown) -> bool:
    """Return whether no stage of the page moves."""
    return all(not stage.rate for stage in shown.values())


AGREES: dict[str, Callable[[Shown], bool]] = {
    "environments": lambda shown: (
        busiest_worker_stage(shown) == "step" and trainer_waits(shown) > 0.1
    ),
    "inference": lambda shown: (
        busiest_worker_stage(shown) == "infer" and trainer_waits(shown) > 0.1
    ),
    "trainer": lambda shown: (shown["train"].share or 0.0) >= 0.7,
    "no_trainer": lambda shown: shown["train"].share is None and not shown["train"].rate,
    "trainer_stuck": lambda shown: (shown["train"].share or 0.0) >= 0.99,
    "data_stale": lambda shown: trainer_waits(shown) > 0.1 and bool(shown["push"].rate),
    "weights_slow": lambda shown: (
        workers_wait(shown, "weights") > 0.1 and trainer_waits(shown) > 0.1
    ),
    "staleness_limit": lambda shown: (
        workers_wait(shown, "room") > 0.1 and trainer_waits(shown) > 0.1
    ),
    "weights_unpublished": lambda shown: workers_wait(shown, "room") >= 0.5,
    "weights_behind": lambda shown: workers_wait(shown, "weights") >= 0.5,
    "workers_crash": lambda shown: not shown["step"].rate or trainer_waits(shown) > 0.1,
    "workers_blocked": lambda shown: not shown["infer"].rate,
    "inference_failed": lambda shown: not shown["infer"].rate,
    "slow_worker": lambda shown: trainer_waits(shown) > 0.1 and bool(shown["step"].rate),
    "paused": is_idle,
    "pushes_refused": lambda shown: not shown["push"].rate,
    "queue_full": lambda shown: (shown["queue"].share or 0.0) >= 0.5,
    "outside_environments": lambda shown: trainer_waits(shown) > 0.1,
}
"""What the stages of *Pipeline* must show beside each kind of diagnosis."""


@pytest.mark.parametrize("name", CASES)
def test_diagnosis_agrees_with_the_stages_of_the_same_page(name: str) -> None:
    for facts, diagnosis in replayed(name):
        shown = {stage.name: stage for stage in stages(facts)}
        assert diagnosis.stage is None or diagnosis.stage in shown
        assert AGREES[diagnosis.kind](shown), (diagnosis, shown)


@pytest.mark.parametrize("name", CASES)
def test_shares_in_a_diagnosis_are_those_of_the_same_page(name: str) -> None:
    for facts, diagnosis in replayed(name):
        text = " ".join([diagnosis.summary, *diagnosis.evidence])
        shown = {stage.name: stage for stage in stages(facts)}
        if "the trainer waits" in text:
            assert f"the trainer waits {percent(trainer_waits(shown))} of its time" in text
        if diagnosis.kind in {"environments", "inference"}:
            assert diagnosis.stage
            share = shown[diagnosis.stage].share or 0.0
            assert f"{percent(share)} of the workers' time" in diagnosis.summary
        if "arrive per second" in text:
            assert f"{shown['push'].rate:.3g} {facts.unit} arrive per second" in text
