"""Environments stop while a run is paused or draining, and their pushes are kept."""

import random
import threading
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from rolldeck.handler import EnvironmentOffer, HandlerState, Pace, RolloutHandler
from rolldeck.pacing import PauseRule
from runs.lifecycle.models.runs import Run
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
    content: dict[str, Any] = answer.json()
    return content


def change(outside: OutsideRun, verb: str) -> str:
    answer = outside.operator.post(
        f"/api/v1/runs/words/{verb}", {"reason": "maintenance"}, content_type="application/json"
    )
    assert answer.status_code == 200, answer.content
    return str(answer.json()["status"])


@pytest.mark.parametrize("is_exact", [False, True])
def test_a_paused_run_has_no_room_and_a_resumed_one_has_it_again(
    outside: OutsideRun, is_exact: bool
) -> None:
    Run.objects.update(exact_queue_size=is_exact)
    before = [status(outside, env_id) for env_id in (0, 1)]
    assert change(outside, "pause") == "paused"
    while_paused = [status(outside, env_id) for env_id in (0, 1)]
    outside.push(mark=7)
    assert change(outside, "resume") == "running"
    after = status(outside)

    assert all(status["queue_size"] < 10 for status in before)
    assert all(status["queue_size"] >= 1 << 20 for status in while_paused)
    assert after["queue_size"] == before[0]["queue_size"] + 1
    assert outside.get("ledger")["groups"]["accepted"] == 1


def test_a_stock_environment_ends_its_rollouts_within_one_poll(outside: OutsideRun) -> None:
    environment = StockEnvironment(
        env_id=0,
        rule=PauseRule(batch_size=64, off_policy_tolerance=3),
        group_size=8,
        max_workers=8,
        ticks_of_a_rollout=(10, 20),
        chance=random.Random(0),
    )
    environment.obey(status(outside)["queue_size"])
    running = len(environment.running)
    change(outside, "pause")
    environment.obey(status(outside)["queue_size"])
    held = len(environment.running)
    change(outside, "resume")
    environment.obey(status(outside)["queue_size"])

    assert (running, held, len(environment.running)) == (8, 0, 8)


@pytest.mark.parametrize("verb", ["drain", "stop"])
def test_a_run_that_ends_has_no_room(outside: OutsideRun, verb: str) -> None:
    outside.push(mark=1)
    change(outside, verb)

    assert status(outside)["queue_size"] >= 1 << 20


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
