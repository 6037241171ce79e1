"""Environments stop while a run is paused or draining, and their pushes are kept."""

import random
import threading
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from rolldeck.handler import EnvironmentOffer, Pace, RolloutHandler
from rolldeck.pacing import HandlerState, PauseRule
from runs.lifecycle.models import Environment, Run
from tests.api.buffer.outside_run import OutsideRun, make_mixed_run
from tests.factories import make_token
from tests.stock_environments import StockEnvironment
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)
BASE = "/atropos/words"


@pytest.fixture
def outside() -> OutsideRun:
    """A running run with two environments."""
    return make_mixed_run()


def status(outside: OutsideRun, env_id: int = 0) -> dict[str, Any]:
    answer = outside.client.get(f"{BASE}/status-env?env_id={env_id}")
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def change(outside: OutsideRun, verb: str) -> str:
    answer = outside.operator.post(
        f"/api/v1/runs/words/{verb}", {"reason": "maintenance"}, content_type="application/json"
    )
    assert answer.status_code == 200, answer.content
    return str(answer.json()["status"])


def stock_environment(*, total_steps: int = 1000) -> StockEnvironment:
    """Return a stock environment with the default of 3 for `max_batches_offpolicy`."""
    run = Run.objects.get()
    return StockEnvironment(
        env_id=0,
        rule=PauseRule(batch_size=run.batch_size or 1, off_policy_tolerance=3),
        group_size=2,
        max_workers=3,
        ticks_of_a_rollout=(10, 20),
        chance=random.Random(0),
        total_steps=total_steps,
    )


def poll(environment: StockEnvironment, outside: OutsideRun) -> int:
    """Poll the status once; return the number of rollouts that then run."""
    found = status(outside)
    environment.obey(found["queue_size"], found["current_step"])
    return len(environment.running)


@pytest.mark.parametrize("is_exact", [False, True])
def test_a_paused_run_reports_a_full_queue_until_it_is_resumed(
    outside: OutsideRun, is_exact: bool
) -> None:
    Run.objects.update(exact_queue_size=is_exact)
    before = [status(outside, env_id) for env_id in (0, 1)]
    assert change(outside, "pause") == "paused"
    while_paused = [status(outside, env_id) for env_id in (0, 1)]
    outside.push(mark=7)
    assert change(outside, "resume") == "running"
    after = status(outside)

    batch_size = Run.objects.get().batch_size
    assert batch_size is not None
    assert all(one["queue_size"] < 10 and "held" not in one for one in before)
    for one, environment in zip(while_paused, Environment.objects.order_by("env_id"), strict=True):
        assert one["queue_size"] * environment.group_size == 16 * batch_size
        assert one["self_queue_size"] == one["queue_size"]
        assert one["held"] is True
    assert after["queue_size"] == before[0]["queue_size"] + 1
    assert outside.get("ledger")["groups"]["accepted"] == 1


def test_the_time_of_a_hold_is_stored_until_the_run_resumes(outside: OutsideRun) -> None:
    def held_at() -> list[str | None]:
        return [row["held_at"] for row in outside.get("environments")["results"]]

    status(outside)
    running = held_at()
    change(outside, "pause")
    unpolled = held_at()
    status(outside)
    [first, other] = held_at()
    status(outside)
    again = held_at()
    change(outside, "resume")
    resumed = held_at()
    status(outside)

    assert running == unpolled == [None, None]
    assert first is not None
    assert other is None
    assert again == resumed == [first, None]
    assert held_at() == [None, None]


def test_a_stock_environment_stops_its_rollouts_within_one_poll(outside: OutsideRun) -> None:
    environment = stock_environment()
    running = poll(environment, outside)
    change(outside, "pause")
    held = poll(environment, outside)
    change(outside, "resume")

    assert (running, held, poll(environment, outside)) == (3, 0, 3)


@pytest.mark.parametrize("steps_left", [16, 4, 3])
def test_a_pause_near_the_last_step_stops_no_environment(
    outside: OutsideRun, steps_left: int
) -> None:
    Run.objects.update(num_steps=100, starting_step=0, served_steps=100 - steps_left)
    environment = stock_environment(total_steps=100)
    change(outside, "pause")

    assert poll(environment, outside) == 0
    assert not environment.has_ended
    change(outside, "resume")
    assert poll(environment, outside) == 3


@pytest.mark.parametrize("verb", ["drain", "stop"])
def test_a_run_that_ends_reports_a_full_queue(outside: OutsideRun, verb: str) -> None:
    outside.push(mark=1)
    environment = stock_environment()
    poll(environment, outside)
    change(outside, verb)

    assert poll(environment, outside) == 0
    assert status(outside)["held"] is True


def test_a_completed_run_stops_its_environments(outside: OutsideRun) -> None:
    environment = stock_environment()
    poll(environment, outside)
    Run.objects.update(status="completed")
    poll(environment, outside)

    assert environment.has_ended


def test_a_rollout_handler_pauses_with_the_run(
    live_server: LiveServer, outside: OutsideRun
) -> None:
    handler = RolloutHandler(
        f"{live_server.url}{BASE}",
        EnvironmentOffer(desired_name="sums", max_token_length=64, group_size=2),
        token=make_token("env", run=outside.run)[1],
        pace=Pace(poll_seconds=0.01, off_policy_tolerance=10_000),
    )
    group = {"tokens": [[1], [2]], "masks": [[1], [2]], "scores": [0.0, 1.0]}
    thread = threading.Thread(target=handler.run, args=(lambda: group,))
    with handler:
        thread.start()
        eventually(lambda: handler.registration is not None)
        change(outside, "pause")
        eventually(lambda: handler.state is HandlerState.PAUSED)
        change(outside, "resume")
        eventually(lambda: handler.state is HandlerState.RUNNING)
        handler.stop()
        thread.join(timeout=60)

    assert not thread.is_alive()
