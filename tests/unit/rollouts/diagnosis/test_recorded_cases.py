"""The diagnosis of runs that were driven into a known state, from recorded measurements.

``tests/diagnosis_cases`` drives real runs and records them.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from rollouts.diagnosis.rules.bottleneck import diagnose
from rollouts.diagnosis.rules.diagnosis import Diagnosis
from rollouts.diagnosis.rules.flow import Facts, SlowestWorker, stages
from tests.diagnosis_cases.cases import CASES

FOLDER = Path(__file__).parent / "cases"
EVALUATED_EVERY_SECONDS = 10.0


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


@pytest.mark.parametrize("name", CASES)
def test_diagnosis_agrees_with_the_stages_of_the_same_page(name: str) -> None:
    for facts, diagnosis in replayed(name):
        shown = {stage.name: stage for stage in stages(facts)}
        assert diagnosis.stage is None or diagnosis.stage in shown
        if diagnosis.kind in {"environments", "exchange", "inference"}:
            busiest = max(
                (shown[stage].share or 0.0, stage) for stage in ("step", "exchange", "infer")
            )
            assert diagnosis.stage == busiest[1]
        if diagnosis.kind == "trainer":
            assert (shown["train"].share or 0.0) >= 0.7
        if diagnosis.kind in {"environments", "inference", "slow_worker", "outside_environments"}:
            assert (shown["train"].waits or 0.0) >= 0.1
        if diagnosis.kind == "queue_full":
            assert (shown["queue"].share or 0.0) >= 0.5
