"""Each environment of an outside run has series of its groups, and of the numbers in them."""

from typing import Any

import pytest

from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.pushes import accept_groups
from buffer.inspect.services import digest_groups, renew_digests
from rollouts.metrics.models import MetricSample, MetricSeries
from rollouts.metrics.services.measuring import measure_runs
from rollouts.metrics.services.metrics import SERIES_AT_MOST
from runs.lifecycle.models import EnvironmentNumbers, Run
from runs.lifecycle.queries import environments
from runs.lifecycle.services.registry import register_environment
from tests.buffer_factories import body, group
from tests.factories import NOON, make_outside_run
from tests.integration.rollouts.metrics.measured_series import at, measure

# Digests read groups of finished transactions only.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run() -> Run:
    """A run with two environments called math, and one called code."""
    run = make_outside_run(name="outside")
    for name in ("math", "math", "code"):
        register_environment(
            run_id=run.pk,
            desired_name=name,
            weight=1.0,
            max_token_length=0,
            group_size=2,
            min_batch_allocation=None,
            now=NOON,
        )
    return run


def push(run: Run, env_id: int | None, *scores: float, seconds: float = 0, **fields: Any) -> None:
    """Push a group, and digest it."""
    one = group(scores=list(scores), **fields)
    if env_id is not None:
        one["env_id"] = env_id
    accept_groups(run=run, groups=[decode_group(body(one))], producer="tests", now=at(seconds))
    digest_groups(now=at(seconds), seconds=60)


def series(run: Run, prefix: str) -> dict[str, list[float]]:
    """Return the values of the series with a prefix, without it."""
    rows = MetricSample.objects.filter(run=run, series__name__startswith=prefix).order_by("id")
    found: dict[str, list[float]] = {}
    for name, value in rows.values_list("series__name", "value"):
        found.setdefault(name.removeprefix(prefix), []).append(value)
    return found


def test_each_name_has_the_scores_lengths_and_rate_of_its_groups(run: Run) -> None:
    push(run, 0, 1.0, 1.0)
    measure(run, 0)
    push(run, 0, 1.0, 0.0, seconds=5)
    push(run, 1, 1.0, 1.0, seconds=5)
    push(run, 2, 0.0, 0.0, seconds=5)
    measure(run, 10)

    assert series(run, "rolldeck/env/") == {
        "math/reward/mean": [1.0, 0.75],
        "math/length/mean": [3.0, 3.0],
        "math/groups_per_second": [pytest.approx(0.2)],
        "code/reward/mean": [0.0],
        "code/length/mean": [3.0],
        "code/groups_per_second": [pytest.approx(0.1)],
    }
    assert series(run, "rolldeck/reward/mean") == {"": [1.0, 0.5]}


def test_numbers_of_a_name_are_means_since_the_last_measurement(run: Run) -> None:
    push(run, 0, 1.0, 0.0, metadata={"difficulty": 4}, info=[{"solved": True}, {"solved": False}])
    push(run, 1, 1.0, 0.0, metadata={"difficulty": 2, "topic": "sums"})
    push(run, 2, 1.0, 0.0, overrides=[{"temperature": 0.5}, {"temperature": 1.5}])
    push(run, None, 1.0, 0.0, metadata={"difficulty": 9})
    measure(run, 0)
    push(run, 1, 1.0, 0.0, seconds=5, metadata={"difficulty": 8})
    measure(run, 10)
    measure(run, 20)

    assert series(run, "env/") == {
        "math/difficulty": [3.0, 8.0],
        "math/solved": [0.5],
        "code/temperature": [1.0],
        "unregistered/difficulty": [9.0],
    }


def test_groups_of_lessons_are_left_to_their_outcomes(run: Run) -> None:
    push(run, None, 1.0, 0.0, lesson="sums", metadata={"difficulty": 4})
    measure(run, 0)

    assert series(run, "env/") == {}


def test_numbers_that_are_digested_late_are_measured_once(run: Run) -> None:
    one = group(scores=[1.0, 0.0], env_id=0, metadata={"difficulty": 4})
    accept_groups(run=run, groups=[decode_group(body(one))], producer="tests", now=NOON)
    for seconds in (0, 10, 20):
        measure_runs(now=at(seconds))
    Run.objects.filter(pk=run.pk).update(status="completed", status_changed_at=NOON)
    assert series(run, "env/") == {}

    digest_groups(now=at(25), seconds=60)
    renew_digests(run.pk)
    digest_groups(now=at(26), seconds=60)

    assert [measure_runs(now=at(seconds)) for seconds in (30, 40)] == [1, 0]
    assert series(run, "env/") == {"math/difficulty": [4.0]}


def test_ignored_numbers_are_shown_with_their_environments(run: Run) -> None:
    push(run, 0, 1.0, 0.0, metadata={"difficulty": "4", "level": 1})
    push(run, 1, 1.0, 0.0, metadata={"p%": 1, "level": 3}, seconds=5)

    math, math_1, code = environments(run_id=run.pk, now=NOON)

    assert (math.numbers, math_1.numbers, code.numbers) == (1, 1, 0)
    found = {name: (one.values, one.key) for name, one in math.ignored_numbers.items()}
    assert found == {"text": (1, "difficulty"), "invalid_name": (1, "p%")}
    assert math_1.ignored_numbers["invalid_name"].newest_at == at(5)
    assert code.ignored_numbers == {}


def test_a_run_at_its_limit_of_names_keeps_the_known_ones_and_counts_the_others(run: Run) -> None:
    push(run, 0, 1.0, 0.0, metadata={"difficulty": 4})
    measure(run, 0)
    MetricSeries.objects.bulk_create(
        MetricSeries(run=run, name=f"n{number}")
        for number in range(SERIES_AT_MOST - MetricSeries.objects.count())
    )
    push(run, 0, 0.0, 0.0, seconds=5, metadata={"difficulty": 2, "level": 1})
    measure(run, 10)

    assert series(run, "env/") == {"math/difficulty": [4.0, 2.0]}
    assert series(run, "rolldeck/env/math/reward/mean") == {"": [0.5, 0.0]}
    ignored = EnvironmentNumbers.objects.get(run=run).ignored
    assert (ignored["too_many_names"]["values"], ignored["too_many_names"]["key"]) == (1, "level")
