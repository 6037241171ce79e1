"""The platform's job launches a real fleet, receives its reports over HTTP, and ends it."""

from typing import Any

import pytest

from rollouts import jobs
from rollouts.control.models import EnvSlot, Fleet
from rollouts.control.queries.fleets import fleet_state
from rollouts.control.rules import ActorState, LaunchRequest
from rollouts.control.services.ray_cluster import RayCluster
from runs.config.rules.run_config import RunConfig, to_builtins
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunVerb
from tests.integration.rollouts.report_factories import change_status, draft, fleet
from tests.ray_head import RayHead
from tests.waiting import within

pytestmark = [pytest.mark.ray, pytest.mark.django_db(transaction=True)]

SMALL = {"num_workers": 1, "envs_per_worker": 2, "envs_per_process": 2, "inference_batch_size": 2}


@pytest.fixture
def cluster(ray_head: RayHead, live_server: Any, settings: Any) -> RayCluster:
    """A cluster whose fleets reach this test's platform."""
    settings.RAY_ADDRESS = ray_head.address
    settings.ROLLDECK_INTERNAL_URL = live_server.url
    return RayCluster(ray_head.address)


def started(**fleet_fields: Any) -> Run:
    run = draft(config={"fleet": {**SMALL, **fleet_fields}})
    change_status(run, RunVerb.START)
    jobs.reconcile_fleet(run.pk)
    return run


def end(run: Run, cluster: RayCluster) -> bool:
    """Kill the run; return whether its manager has left the cluster."""
    name = fleet(run).actor_name
    change_status(run, RunVerb.KILL)
    jobs.reconcile_fleet(run.pk)
    return within(60, lambda: cluster.actor_state(name) is ActorState.MISSING)


def test_a_started_run_has_a_reporting_fleet_and_a_killed_one_has_none(
    cluster: RayCluster,
) -> None:
    run = started()

    running = within(120, lambda: fleet(run).observed == "running")
    slots = EnvSlot.objects.filter(worker__fleet__run=run).count()
    seen = Fleet.objects.get(run=run)
    has_ended = end(run, cluster)

    assert running
    assert (slots, seen.attempt) == (2, 1)
    assert has_ended
    assert fleet_state(run.pk, now=seen.observed_at).observed == "stopped"


def test_a_fleet_that_cannot_be_placed_names_the_missing_resource(cluster: RayCluster) -> None:
    run = started(num_gpus_per_worker=1)

    names_gpu = within(60, lambda: "GPU" in fleet(run).reason)
    reason = fleet(run).reason
    has_ended = end(run, cluster)

    assert names_gpu, reason
    assert has_ended


def test_a_manager_that_was_replaced_ends_itself_and_its_workers(cluster: RayCluster) -> None:
    run = started()
    running = within(120, lambda: fleet(run).observed == "running")
    name = fleet(run).actor_name
    Fleet.objects.filter(run=run).update(incarnation="2-another", actor_name="rolldeck-pole-2")

    retired = within(60, lambda: cluster.actor_state(name) is ActorState.MISSING)
    change_status(run, RunVerb.KILL)

    assert running
    assert retired


def test_a_manager_that_no_run_owns_is_found_on_the_cluster_and_ended(
    cluster: RayCluster, settings: Any
) -> None:
    Fleet.objects.create(run=draft("other"), attempt=1)
    stray = LaunchRequest(
        actor_name="rolldeck-gone-7",
        incarnation="7-gone",
        run="gone",
        config=to_builtins(RunConfig()),
        platform_url=settings.ROLLDECK_INTERNAL_URL,
        token="rd_revoked",
    )
    cluster.launch(stray)

    ended = within(90, lambda: jobs.end_orphans() == ["rolldeck-gone-7"])

    assert ended
    assert within(60, lambda: cluster.actor_state(stray.actor_name) is ActorState.MISSING)
