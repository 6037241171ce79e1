"""The diagnosis of runs that were driven into a known state, from recorded measurements.

``tests/diagnosis_cases`` drives real runs and records them.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rollouts.diagnosis.rules.causes import diagnose
from rollouts.diagnosis.rules.diagnosis import Diagnosis
from rollouts.diagnosis.rules.flow import Facts, PipelineStage, SlowestWorker, stages
from tests.diagnosis_cases.cases import CASES
from web.rules.amounts import percent

FOLDER = Path(__file__).parent / "cases"
EVALUATED_EVERY_SECONDS = 10.0
Shown = Mapping[str, PipelineStage]
STAGES = {
    "slow-environments": "step",
    "slow-policy": "infer",
    "slow-trainer": "train",
    "no-trainer-yet": "train",
    "trainer-left": "train",
    "trainer-holds-a-batch": "train",
    "stale-data": "queue",
    "slow-weights": "infer",
    "staleness-limit": "queue",
    "weights-not-published": "train",
    "weights-stuck": "infer",
    "crash-loop": None,
    "inference-down": "infer",
    "inference-failed": "infer",
    "one-slow-worker": "step",
    "paused": None,
    "pushes-refused": "push",
    "queue-full": "train",
    "slow-outside-environments": "push",
}
"""Stage that the diagnosis of each case names."""


def facts_of(sample: dict[str, Any]) -> Facts:
    slowest = sample["slowest_worker"]
    return Facts(**sample | {"slowest_worker": slowest and SlowestWorker(**slowest)})


def replayed(name: str) -> list[tuple[Facts, Diagnosis]]:
    """Return the worst cause of each sample of a case; causes are recorded as on the server."""
    case = json.loads((FOLDER / f"{name}.json").read_text())
    every = EVALUATED_EVERY_SECONDS / case["interval_seconds"]
    previous: set[str] = set()
    found = []
    for number, sample in enumerate(case["samples"]):
        facts = facts_of(sample)
        causes = diagnose(facts, previous=previous)
        found.append((facts, causes[0]))
        if number % every == 0:
            previous = {cause.key for cause in causes}
    return found


@pytest.mark.parametrize("name", CASES)
def test_every_sample_of_a_case_has_its_diagnosis(name: str) -> None:
    named = [(diagnosis.kind, diagnosis.stage) for _, diagnosis in replayed(name)]

    assert len(named) >= 24  # two minutes
    assert set(named) == {(CASES[name][1], STAGES[name])}


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
    "slow-environments": lambda shown: (
        busiest_worker_stage(shown) == "step" and trainer_waits(shown) > 0.1
    ),
    "slow-policy": lambda shown: (
        busiest_worker_stage(shown) == "infer" and trainer_waits(shown) > 0.1
    ),
    "slow-trainer": lambda shown: (shown["train"].share or 0.0) >= 0.7,
    "no-trainer-yet": lambda shown: shown["train"].share is None and not shown["train"].rate,
    "trainer-left": lambda shown: shown["train"].share is None and not shown["train"].rate,
    "trainer-holds-a-batch": lambda shown: (shown["train"].share or 0.0) >= 0.99,
    "stale-data": lambda shown: trainer_waits(shown) > 0.1 and bool(shown["push"].rate),
    "slow-weights": lambda shown: (
        workers_wait(shown, "weights") > 0.1 and trainer_waits(shown) > 0.1
    ),
    "staleness-limit": lambda shown: (
        workers_wait(shown, "room") > 0.1 and trainer_waits(shown) > 0.1
    ),
    "weights-not-published": lambda shown: workers_wait(shown, "room") >= 0.5,
    "weights-stuck": lambda shown: workers_wait(shown, "weights") >= 0.5,
    "crash-loop": lambda shown: not shown["step"].rate or trainer_waits(shown) > 0.1,
    "inference-down": lambda shown: not shown["infer"].rate,
    "inference-failed": lambda shown: not shown["infer"].rate,
    "one-slow-worker": lambda shown: trainer_waits(shown) > 0.1 and bool(shown["step"].rate),
    "paused": is_idle,
    "pushes-refused": lambda shown: not shown["push"].rate,
    "queue-full": lambda shown: (shown["queue"].share or 0.0) >= 0.5,
    "slow-outside-environments": lambda shown: trainer_waits(shown) > 0.1,
}
"""What the stages of *Pipeline* must show beside the diagnosis of each case."""


@pytest.mark.parametrize("name", CASES)
def test_diagnosis_agrees_with_the_stages_of_the_same_page(name: str) -> None:
    for facts, diagnosis in replayed(name):
        shown = {stage.name: stage for stage in stages(facts)}
        assert diagnosis.stage is None or diagnosis.stage in shown
        assert AGREES[name](shown), (diagnosis, shown)


@pytest.mark.parametrize("name", CASES)
def test_shares_in_a_diagnosis_are_those_of_the_same_page(name: str) -> None:
    for facts, diagnosis in replayed(name):
        text = " ".join([diagnosis.summary, *diagnosis.evidence])
        shown = {stage.name: stage for stage in stages(facts)}
        if "the trainer waits" in text:
            assert f"the trainer waits {percent(trainer_waits(shown))} of its time" in text
        if name in {"slow-environments", "slow-policy"}:
            assert diagnosis.stage
            share = shown[diagnosis.stage].share or 0.0
            assert f"{percent(share)} of the workers' time" in diagnosis.summary
        if "arrive per second" in text:
            assert f"{shown['push'].rate:.3g} {facts.unit} arrive per second" in text
