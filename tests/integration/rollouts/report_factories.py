"""Runs, reports and episode windows for the tests of this folder."""

from datetime import UTC, datetime, timedelta
from typing import Any

from rolldeck.wire import EpisodeWindow, FleetReport, SlotReport, WorkerReport
from rollouts.control.models import Fleet
from rollouts.control.services.reconciliation import reconcile
from rollouts.control.services.reports import accept_report
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus, RunVerb
from runs.lifecycle.services import lifecycle
from runs.lifecycle.services.lifecycle import create
from tests.fake_cluster import FakeCluster

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
URL = "http://127.0.0.1:8000"


def later(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def draft(name: str = "pole", **fields: Any) -> Run:
    return create(name=name, now=NOON, **fields)


def change_status(run: Run, verb: RunVerb, *, now: datetime = NOON, **more: Any) -> None:
    lifecycle.change_status(run_id=run.pk, verb=verb, actor="user:alice", now=now, **more)


def reconcile_run(run: Run, cluster: FakeCluster, *, now: datetime = NOON) -> Any:
    return reconcile(run_id=run.pk, cluster=cluster, platform_url=URL, now=now)


def launched(cluster: FakeCluster, name: str = "pole") -> Run:
    """Return a started run whose manager was accepted by the cluster."""
    run = draft(name)
    change_status(run, RunVerb.START)
    reconcile_run(run, cluster)
    return run


def rolling(cluster: FakeCluster, name: str = "pole") -> Run:
    """Return a run whose fleet has reported its first env steps."""
    run = launched(cluster, name)
    accept(run, report(run, worker(env_steps=10)))
    return run


def fleet(run: Run) -> Fleet:
    return Fleet.objects.get(run=run)


def status(run: Run) -> RunStatus:
    return RunStatus(Run.objects.get(pk=run.pk).status)


def worker(index: int = 0, **fields: Any) -> WorkerReport:
    values: dict[str, Any] = {
        "incarnation": "a",
        "state": "running",
        "slots": [SlotReport(slot=0, state="stepping", pid=7, episodes=1)],
    }
    return WorkerReport(index=index, **{**values, **fields})


def window(*returns: float, **fields: Any) -> EpisodeWindow:
    values: dict[str, Any] = {
        "environment": "gymnasium:CartPole-v1",
        "worker": 0,
        "seconds": 1.0,
        "count": len(returns),
        "return_sum": sum(returns),
        "return_mean": sum(returns) / len(returns),
        "return_min": min(returns),
        "return_max": max(returns),
        "return_p10": min(returns),
        "return_p50": sum(returns) / len(returns),
        "return_p90": max(returns),
        "discounted_return_mean": 1.0,
        "length_mean": sum(returns) / len(returns),
        "length_max": int(max(returns)),
        "terminated": len(returns),
        "truncated": 0,
        "aborted": 0,
        "returns": list(returns),
        "lengths": [int(value) for value in returns],
    }
    return EpisodeWindow(**{**values, **fields})


def report(run: Run, *workers: WorkerReport, sequence: int = 0, **fields: Any) -> FleetReport:
    values: dict[str, Any] = {
        "incarnation": fleet(run).incarnation,
        "sequence": sequence,
        "state": "running",
        "workers": list(workers),
    }
    return FleetReport(**{**values, **fields})


def accept(run: Run, given: FleetReport, *, now: datetime = NOON) -> bool:
    return accept_report(run_id=run.pk, report=given, now=now)
