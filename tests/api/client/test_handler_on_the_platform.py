"""A rollout handler paces itself by the queue of the platform or of a stock server."""

import threading

import pytest
from pytest_django.live_server_helper import LiveServer

from rolldeck.handler import EnvironmentOffer, HandlerEvent, HandlerState, Pace, RolloutHandler
from rolldeck.http import Call, Connection
from runs.lifecycle.models import Environment, RunKind
from tests.factories import make_run, make_token
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)

REGISTRATION = {
    "wandb_group": "sums",
    "wandb_project": "arithmetic",
    "batch_size": 4,
    "max_token_len": 64,
    "checkpoint_dir": "",
    "save_checkpoint_interval": 0,
    "starting_step": 0,
    "num_steps": 100,
}


def test_a_handler_waits_for_the_trainer_and_pauses_while_it_lags(
    live_server: LiveServer,
) -> None:
    run = make_run(name="outside", kind=RunKind.OUTSIDE)
    url, token = f"{live_server.url}/atropos/outside", make_token("env", "trainer", run=run)[1]
    events: list[HandlerEvent] = []
    handler = RolloutHandler(
        url,
        EnvironmentOffer(desired_name="sums", max_token_length=64, group_size=2),
        token=token,
        pace=Pace(poll_seconds=0.01, off_policy_tolerance=2),
        tracker=events.append,
    )
    group = {"tokens": [[1], [2]], "masks": [[1], [2]], "scores": [0.0, 1.0]}
    thread = threading.Thread(target=handler.run, args=(lambda: group,))

    with Connection(url, token) as trainer, handler:
        batch = Call(method="GET", path="/batch")
        thread.start()
        trainer.json(Call(method="POST", path="/register", json=REGISTRATION))
        trainer.json(batch)
        eventually(lambda: handler.state is HandlerState.PAUSED)
        taken = [trainer.json(batch)["batch"] for _ in range(2)]
        eventually(lambda: "resumed" in [event.kind for event in events])
        handler.stop()
        thread.join(timeout=60)

    kinds = [event.kind for event in events if event.kind not in ("sent", "status")]
    assert kinds[:3] == ["registered", "paused", "resumed"]
    assert kinds[-1] == "disconnected"
    assert [len(groups) for groups in taken] == [2, 2]
    assert dict(events[0].values)["project"] == "arithmetic"
    assert Environment.objects.filter(run=run, connected=True).count() == 0
