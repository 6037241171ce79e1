"""A run in a steady state keeps its diagnosis: at most one change per minute."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from rollouts.diagnosis.rules.bottleneck import diagnose
from rollouts.diagnosis.rules.flow import Facts, SlowestWorker
from tests.unit.rollouts.diagnosis.test_bottleneck import facts

EVALUATED_EVERY_SECONDS = 5
MINUTES = 10

NEAR: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    # Facts, their diagnosis, and slightly different facts that keep it.
    "trainer": ({"trainer_waits": 0.18}, "trainer", {"trainer_waits": 0.27}),
    "producers": ({"trainer_waits": 0.24}, "environments", {"trainer_waits": 0.13}),
    "stages": (
        {"shares": {"env_step": 0.4, "infer": 0.38}},
        "environments",
        {"shares": {"env_step": 0.38, "infer": 0.45}},
    ),
    "limit": (
        {"shares": {"waiting_room": 0.22, "infer": 0.4}},
        "staleness_limit",
        {"shares": {"waiting_room": 0.14, "infer": 0.4}},
    ),
    "weights": (
        {"shares": {"waiting_weights": 0.22, "infer": 0.4}},
        "weights_slow",
        {"shares": {"waiting_weights": 0.14, "infer": 0.4}},
    ),
    "stale": ({"stale_share": 0.22}, "data_stale", {"stale_share": 0.14}),
    "crashes": ({"crashes": 3}, "workers_crash", {"crashes": 2}),
    "delivery": ({"delivery_seconds": 0.17}, "delivery", {"delivery_seconds": 0.14}),
    "unformed": ({"queued": 17}, "batches_unformed", {"queued": 10}),
    "slow worker": (
        {"slowest_worker": SlowestWorker(index=1, rate=45.0, median_of_others=100.0)},
        "slow_worker",
        {"slowest_worker": SlowestWorker(index=1, rate=55.0, median_of_others=100.0)},
    ),
}


def slow_loads(load_seconds: int, every_seconds: int) -> Iterator[Facts]:
    """Return the facts of ten minutes in which each published version loads slowly."""
    for second in range(0, 60 * MINUTES, EVALUATED_EVERY_SECONDS):
        version, since = divmod(second, every_seconds)
        is_loading = since < load_seconds
        ended = [
            number * every_seconds + load_seconds
            for number in range(version + 1)
            if second - 60 <= number * every_seconds + load_seconds <= second
        ]
        yield facts(
            version=version,
            version_age_seconds=float(since),
            versions_behind=int(is_loading),
            behind_seconds=float(since) if is_loading else None,
            load_seconds=float(load_seconds) if ended else None,
        )


def kinds_of(samples: Iterator[Facts]) -> list[str]:
    """Return the kind of each evaluation, each with the hysteresis of the one before."""
    kinds = [""]
    for sample in samples:
        kinds.append(diagnose(sample, previous=kinds[-1]).kind)
    return kinds[1:]


def changes(kinds: list[str]) -> int:
    return sum(one != other for one, other in itertools.pairwise(kinds))


def test_weights_that_always_load_late_are_one_diagnosis() -> None:
    kinds = kinds_of(slow_loads(load_seconds=35, every_seconds=40))

    assert kinds[-1] == "weights_behind"
    assert changes(kinds) == 1


def test_late_weights_are_no_longer_the_diagnosis_after_a_minute_of_fast_loads() -> None:
    late = list(slow_loads(load_seconds=35, every_seconds=40))
    fast = [facts(version=99, load_seconds=1.0)] * 3

    assert kinds_of(iter([*late, *fast]))[-1] == "environments"


def test_weights_that_load_in_time_are_never_the_diagnosis() -> None:
    assert "weights_behind" not in kinds_of(slow_loads(load_seconds=25, every_seconds=40))


def test_late_weights_name_the_time_of_the_last_load() -> None:
    diagnosis = diagnose(facts(version=4, load_seconds=35.0), previous="weights_behind")

    assert diagnosis.summary == "The slowest worker loads new weights in 35 s."
    assert "workers should receive a version within 30 s" in diagnosis.evidence


@pytest.mark.parametrize("name", NEAR)
@pytest.mark.parametrize("is_reversed", [False, True])
def test_numbers_that_vary_around_a_threshold_are_one_diagnosis(
    name: str, is_reversed: bool
) -> None:
    first, _, second = NEAR[name]
    pair = [facts(**second), facts(**first)] if is_reversed else [facts(**first), facts(**second)]
    evaluations = 60 * MINUTES // EVALUATED_EVERY_SECONDS

    assert changes(kinds_of(iter(pair * (evaluations // 2)))) <= 1


@pytest.mark.parametrize("name", NEAR)
def test_diagnosis_remains_while_its_numbers_stay_near_the_threshold(name: str) -> None:
    at_first, kind, later = NEAR[name]

    assert diagnose(facts(**at_first)).kind == kind
    assert diagnose(facts(**later)).kind != kind
    assert diagnose(facts(**later), previous=kind).kind == kind


@pytest.mark.parametrize("previous", ["trainer", "staleness_limit", "slow_worker", "sending"])
def test_diagnosis_changes_when_its_numbers_are_clearly_different(previous: str) -> None:
    assert diagnose(facts(), previous=previous).kind == "environments"


@pytest.mark.parametrize("previous", ["paused", "no_trainer", "", "a kind of an older release"])
def test_blocking_diagnosis_ends_with_its_cause(previous: str) -> None:
    assert diagnose(facts(), previous=previous) == diagnose(facts())
