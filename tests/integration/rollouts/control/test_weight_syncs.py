"""The arrival of each version at each worker is stored."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from rollouts.control.models import WeightsDelivery
from rollouts.control.queries.fleets import weights_part
from rollouts.control.services.reports import KEPT_STEPS
from runs.lifecycle.models import PolicyVersion, Run
from tests.factories import bearer
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.report_factories import accept, later, launched, report, worker

pytestmark = pytest.mark.django_db


def send_report(run: Run, sequence: int, *workers: Any) -> None:
    accept(run, report(run, *workers, sequence=sequence), now=later(sequence))


def shown(run: Run, query: str = "") -> list[dict[str, Any]]:
    client = APIClient(headers=bearer("read"))
    answer = client.get(f"/api/v1/runs/{run.name}/weights/syncs{query}")
    assert answer.status_code == 200, answer.content
    rows: list[dict[str, Any]] = answer.json()["results"]
    return rows


def seconds(row: dict[str, Any]) -> list[int | None]:
    """Return the seconds after noon at which a version was announced, staged and active."""
    times = [row["announced_at"], row["staged_at"], row["active_at"]]
    return [None if at is None else int(at[17:19]) for at in times]


def test_a_version_has_the_times_of_its_stages() -> None:
    run = launched(FakeCluster())
    send_report(run, 0, worker(0), worker(1))
    send_report(run, 1, worker(0, announced_step=0), worker(1, announced_step=0))
    send_report(run, 2, worker(0, announced_step=0, staged_step=0), worker(1, announced_step=0))
    done = {"announced_step": 0, "staged_step": 0, "active_step": 0}
    send_report(run, 3, worker(0, **done), worker(1, announced_step=0, staged_step=0))
    send_report(run, 4, worker(0, **done), worker(1, **done))

    assert [(row["step"], row["worker"], seconds(row)) for row in shown(run)] == [
        (0, 0, [1, 2, 3]),
        (0, 1, [1, 3, 4]),
    ]


def test_a_skipped_version_was_never_active() -> None:
    run = launched(FakeCluster())
    send_report(run, 0, worker(announced_step=0, staged_step=0, active_step=0))
    send_report(run, 1, worker(announced_step=1, staged_step=0, active_step=0))
    send_report(run, 2, worker(announced_step=2, staged_step=2, active_step=2))

    assert [(row["step"], seconds(row)) for row in shown(run)] == [
        (2, [2, 2, 2]),
        (1, [1, None, None]),
        (0, [0, 0, 0]),
    ]


def test_a_restarted_worker_keeps_the_first_times() -> None:
    run = launched(FakeCluster())
    done = {"announced_step": 0, "staged_step": 0, "active_step": 0}
    send_report(run, 0, worker(**done))
    send_report(run, 5, worker(incarnation="b", **done))

    assert [seconds(row) for row in shown(run)] == [[0, 0, 0]]


def test_only_the_newest_versions_are_shown_and_kept() -> None:
    run = launched(FakeCluster())
    for sequence, step in enumerate([0, 1, 2, KEPT_STEPS + 2]):
        send_report(run, sequence, worker(announced_step=step))

    assert [row["step"] for row in shown(run, "?versions=1")] == [KEPT_STEPS + 2]
    assert sorted(WeightsDelivery.objects.values_list("step", flat=True)) == [2, KEPT_STEPS + 2]


def published(run: Run, *steps: int) -> None:
    for step in steps:
        PolicyVersion.objects.create(
            run=run, epoch=run.epoch, step=step, size_bytes=8, published_at=later(step), manifest={}
        )
    Run.objects.filter(pk=run.pk).update(policy_step=max(steps))


def test_the_live_part_has_the_progress_of_the_newest_version() -> None:
    run = launched(FakeCluster())
    assert on_the_way(run) == (None, -2, 0, 0, 0)
    published(run, 0, 1)
    send_report(run, 0, worker(0), worker(1))
    send_report(run, 1, worker(0, announced_step=1), worker(1, announced_step=0))
    assert on_the_way(run) == (1, 1, 1, 0, 0)

    done = {"announced_step": 1, "staged_step": 1, "active_step": 1}
    send_report(run, 2, worker(0, **done), worker(1, announced_step=1, staged_step=1))
    assert on_the_way(run) == (1, 1, 2, 2, 1)
    part = weights_part(run.pk)
    assert part is not None
    assert part.reported_at == later(2)


def on_the_way(run: Run) -> tuple[int | None, int, int, int, int]:
    part = weights_part(run.pk)
    assert part is not None
    newest = part.newest.step if part.newest else None
    return newest, part.acting_step, part.announced, part.staged, part.active


def test_a_late_report_of_an_older_version_counts() -> None:
    run = launched(FakeCluster())
    published(run, 0, 1)
    send_report(run, 0, worker(0), worker(1))
    send_report(run, 1, worker(0, announced_step=1), worker(1))
    before = weights_part(run.pk)
    send_report(run, 2, worker(0, announced_step=1), worker(1, announced_step=0))

    assert weights_part(run.pk) != before


def test_a_deleted_run_has_no_weights() -> None:
    assert weights_part(0) is None
