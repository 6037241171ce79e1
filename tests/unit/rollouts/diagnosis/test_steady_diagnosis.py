"""A run in a steady state keeps its diagnosis: at most one change per minute."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from rollouts.diagnosis.rules.causes import diagnose
from rollouts.diagnosis.rules.flow import Facts, SlowestWorker
from tests.unit.rollouts.diagnosis.test_bottleneck import facts

EVALUATED_EVERY_SECONDS = 5
MINUTES = 10

NEAR: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    # Facts, their diagnosis, and slightly different facts that keep it.
    "trainer": ({"trainer_waits": 0.18}, "trainer_slow:train", {"trainer_waits": 0.27}),
    "stages": (
        {"shares": {"env_step": 0.4, "infer": 0.38}},
        "producers_slow:step",
        {"shares": {"env_step": 0.38, "infer": 0.45}},
    ),
    "limit": (
        {"shares": {"waiting_room": 0.22, "infer": 0.4}},
        "staleness_limit:queue",
        {"shares": {"waiting_room": 0.14, "infer": 0.4}},
    ),
    "weights": (
        {"shares": {"waiting_weights": 0.22, "infer": 0.4}},
        "weights_late:infer",
        {"shares": {"waiting_weights": 0.14, "infer": 0.4}},
    ),
    "stale": ({"stale_share": 0.22}, "stale_drops:queue", {"stale_share": 0.14}),
    "crashes": ({"crashes": 3}, "workers_down:", {"crashes": 2}),
    "delivery": ({"delivery_seconds": 0.17}, "delivery_slow:batch", {"delivery_seconds": 0.14}),
    "unformed": ({"queued": 17}, "delivery_slow:batch", {"queued": 10}),
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
    """Return the worst cause of each evaluation, each with the hysteresis of the one before."""
    kinds, previous = [], set[str]()
    for sample in samples:
        causes = diagnose(sample, previous=previous)
        previous = {cause.key for cause in causes}
        kinds.append(causes[0].key)
    return kinds


def changes(kinds: list[str]) -> int:
    return sum(one != other for one, other in itertools.pairwise(kinds))


def test_weights_that_always_load_late_are_one_diagnosis() -> None:
    kinds = kinds_of(slow_loads(load_seconds=35, every_seconds=40))

    assert kinds[-1] == "weights_late:infer"
    assert changes(kinds) == 1


def test_late_weights_are_no_longer_the_diagnosis_after_a_minute_of_fast_loads() -> None:
    late = list(slow_loads(load_seconds=35, every_seconds=40))
    fast = [facts(version=99, load_seconds=1.0)] * 3

    assert kinds_of(iter([*late, *fast]))[-1] == "producers_slow:step"


def test_weights_that_load_in_time_are_never_the_diagnosis() -> None:
    assert "weights_late:infer" not in kinds_of(slow_loads(load_seconds=25, every_seconds=40))


def test_late_weights_name_the_time_of_the_last_load() -> None:
    (diagnosis,) = diagnose(facts(version=4, load_seconds=35.0), previous={"weights_late:infer"})

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
    at_first, key, later = NEAR[name]

    assert diagnose(facts(**at_first))[0].key == key
    assert diagnose(facts(**later))[0].key != key
    assert diagnose(facts(**later), previous={key})[0].key == key


def test_a_slow_worker_remains_the_cause_near_its_threshold() -> None:
    slow = facts(slowest_worker=SlowestWorker(index=1, rate=55.0, median_of_others=100.0))

    assert "Worker 1 is slow" not in diagnose(slow)[0].summary
    assert "Worker 1 is slow" in diagnose(slow, previous={"producers_slow:step"})[0].summary


@pytest.mark.parametrize(
    "previous", ["trainer_slow:train", "staleness_limit:queue", "producers_slow:push"]
)
def test_diagnosis_changes_when_its_numbers_are_clearly_different(previous: str) -> None:
    assert diagnose(facts(), previous={previous})[0].key == "producers_slow:step"


@pytest.mark.parametrize(
    "previous", ["not_running:", "training_stalled:train", "", "a kind of an older release"]
)
def test_blocking_diagnosis_ends_with_its_cause(previous: str) -> None:
    assert diagnose(facts(), previous={previous}) == diagnose(facts())


def test_no_part_below_a_share_of_a_fifth_is_named() -> None:
    shares = {"recv": 0.01, "env_step": 0.19, "infer": 0.1}
    (cause,) = diagnose(facts(trainer_waits=0.4, shares=shares))

    assert (cause.kind, cause.stage) == ("no_bottleneck", None)
    assert cause.summary == (
        "The trainer waits 40 % of its time, and no part of the workers is busy for 20 % of theirs."
    )


def test_the_pace_is_measured_from_ten_seconds_after_a_resume() -> None:
    (cause,) = diagnose(facts(status_seconds=3.0))

    assert (cause.kind, cause.summary) == (
        "no_bottleneck",
        "Started or resumed 3 s ago, measuring.",
    )
    assert diagnose(facts(status_seconds=10.0)) == diagnose(facts())


def test_all_causes_are_named_the_most_harmful_first() -> None:
    of = facts(
        kind="outside",
        unit="sequences",
        shares={},
        refused=["maze: 25 groups in 25 pushes refused"],
        stale_share=0.4,
        trainer_waits=0.0,
        holding_seconds=600.0,
        since_lease_seconds=600.0,
        jobs_problem="no heartbeats from the scheduler",
    )

    assert [cause.kind for cause in diagnose(of)] == [
        "jobs_down",
        "pushes_refused",
        "stale_drops",
        "training_stalled",
    ]


def test_a_broken_part_hides_the_pace_that_it_explains() -> None:
    assert [cause.kind for cause in diagnose(facts(crashes=3))] == ["workers_down"]
