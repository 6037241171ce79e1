"""Distribution of episodes over a run's life, and episodes by return or length."""

import time
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from buffer.inspect.queries.group_lists import group_page
from buffer.inspect.rules.sample_filter import parse_samples
from rollouts.control.models import EpisodeWindow
from runs.lifecycle.models import Run
from tests.api.buffer.outside_run import make_words_run
from tests.buffer_factories import ENVIRONMENT
from tests.factories import NOON, bearer, make_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run() -> Run:
    return make_run(name="pole")


def report(run: Run, *returns: float, **fields: Any) -> EpisodeWindow:
    """Return a report of episodes whose lengths equal their returns, unless given otherwise."""
    lengths = fields.pop("lengths", [int(value) for value in returns])
    return EpisodeWindow(
        **{
            "run": run,
            "at": NOON,
            "environment": "gymnasium:CartPole-v1",
            "worker": 0,
            "mode": "train",
            "seconds": 1.0,
            "count": len(returns),
            "return_sum": sum(returns),
            "return_mean": sum(returns) / len(returns),
            "return_min": min(returns),
            "return_max": max(returns),
            "return_p10": min(returns),
            "return_p50": min(returns),
            "return_p90": max(returns),
            "discounted_return_mean": 0.0,
            "length_mean": sum(lengths) / len(lengths),
            "length_max": max(lengths),
            "terminated": len(returns),
            "truncated": 0,
            "aborted": 0,
            "returns": list(returns),
            "lengths": lengths,
            "policy_step": 7,
        }
        | fields
    )


def write(*reports: EpisodeWindow) -> None:
    EpisodeWindow.objects.bulk_create(reports)


def request_episodes(run: Run, path: str, **query: Any) -> Any:
    return Client().get(
        f"/api/v1/runs/{run.name}/episodes/{path}", query, headers=bearer("read", run=run)
    )


def episode_statistics(run: Run, path: str, **query: Any) -> Any:
    answer = request_episodes(run, path, **query)
    assert answer.status_code == 200, answer.content
    return answer.json()


def later(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def test_returns_are_distributed_over_the_duration_of_the_run(run: Run) -> None:
    write(report(run, 10.0, 20.0), report(run, 200.0, at=later(60)))

    spread = episode_statistics(run, "distribution")

    assert (spread["unit"], spread["least"], spread["most"]) == ("episodes", 10.0, 200.0)
    assert (spread["counted"], spread["is_sampled"]) == (3, False)
    assert len(spread["counts"]) == 24
    assert [(at, count) for at, count in enumerate(spread["counts"]) if count] == [
        (0, 1),
        (1, 1),
        (23, 1),
    ]


def test_lengths_have_a_distribution_and_tasks_are_separate(run: Run) -> None:
    write(report(run, 5.0, lengths=[500]), report(run, 1.0, mode="eval", lengths=[20]))

    spread = episode_statistics(run, "distribution", of="length", mode="train")

    assert (spread["least"], spread["most"], spread["counted"]) == (500.0, 500.0, 1)
    assert [(task["mode"], task["mean"]) for task in spread["tasks"]] == [
        ("eval", 20.0),
        ("train", 500.0),
    ]


def test_a_run_without_episodes_has_no_distribution(run: Run) -> None:
    spread = episode_statistics(run, "distribution")

    assert (spread["counts"], spread["least"], spread["counted"]) == ([], None, 0)


@pytest.fixture
def very_many_reports(run: Run) -> None:
    """20,000 reports of 20 episodes each."""
    write(report(run, *(float(number) for number in range(20))))
    columns = [
        field.column for field in EpisodeWindow._meta.fields if field.name not in ("id", "at")
    ]
    names = ", ".join(columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO rollouts_episodewindow (at, {names})"  # noqa: S608 names of columns
            f" SELECT at + make_interval(secs => s), {names}"
            " FROM rollouts_episodewindow, generate_series(1, 20000) AS s"
        )


def test_of_many_reports_a_sample_is_read(run: Run, very_many_reports: None) -> None:
    spread = episode_statistics(run, "distribution")

    assert spread["is_sampled"]
    assert 20_000 < spread["counted"] < 60_000
    assert sum(spread["counts"]) == spread["counted"]


@pytest.mark.alone("measures the time over 20,000 reports")
def test_many_reports_are_summarized_in_half_a_second(run: Run, very_many_reports: None) -> None:
    began = time.perf_counter()
    episode_statistics(run, "distribution")
    took = time.perf_counter() - began

    print(f"\nspread of 20,000 reports: {took:.3f} s")  # noqa: T201 the figure is why it runs
    assert took < 0.5


def test_the_distribution_of_groups_uses_the_filters_of_lists() -> None:
    outside = make_words_run()
    # Environments may register once a trainer has requested a batch.
    outside.next()
    assert outside.post("/atropos/words/register-env", ENVIRONMENT).status_code == 200
    for scores in ([0.0, 1.0], [1.0, 1.0]):
        outside.push(mark=1, scores=scores, env_id=0)

    spread = episode_statistics(outside.run, "distribution")

    assert (spread["unit"], spread["least"], spread["most"]) == ("groups", 0.5, 1.0)
    assert [(task["task"], task["counted"]) for task in spread["tasks"]] == [("math_0", 2)]
    assert (
        len(group_page([outside.run.pk], parse_samples("score>=0.75"), limit=5, now=NOON).rows) == 1
    )


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("distribution", {"of": "mood"}, "of"),
        ("distribution", {"mode": "both"}, "mode"),
    ],
)
def test_invalid_parameters_are_refused_with_their_field(
    run: Run, path: str, query: dict[str, Any], field: str
) -> None:
    answer = request_episodes(run, path, **query)

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)
