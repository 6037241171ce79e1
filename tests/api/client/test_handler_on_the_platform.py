"""A rollout handler paces itself by the queue of the platform or of a stock server."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from pytest_django.live_server_helper import LiveServer

from rolldeck import Client
from rolldeck.errors import RolldeckError
from rolldeck.handler import EnvironmentOffer, HandlerEvent, Pace, RolloutHandler
from rolldeck.http import Call, Connection
from rolldeck.pacing import HandlerState
from runs.lifecycle.models import Environment, Run, RunKind
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


class Sums:
    """An environment with a state: the number of groups that it has made."""

    def __init__(self) -> None:
        self.made = 0

    def produce(self) -> dict[str, object]:
        self.made += 1
        return {"tokens": [[1], [2]], "masks": [[1], [2]], "scores": [0.0, 1.0]}

    def save(self, folder: Path, step: int) -> None:
        (folder / "made.txt").write_text(f"{self.made} at {step}")

    def load(self, folder: Path, step: int) -> None:
        text, _, at = (folder / "made.txt").read_text().partition(" at ")
        assert int(at) == step
        self.made = int(text)


@contextmanager
def trained_run(
    live_server: LiveServer, sums: Sums, folder: Path, *, num_steps: int
) -> Iterator[tuple[Run, Connection, RolloutHandler, list[HandlerEvent]]]:
    """A started run with a checkpoint every two steps, its trainer, and a handler of `sums`."""
    run = make_run(name="outside", kind=RunKind.OUTSIDE)
    url, token = f"{live_server.url}/atropos/outside", make_token("env", "trainer", run=run)[1]
    events: list[HandlerEvent] = []
    with Connection(url, token) as trainer:
        body = REGISTRATION | {
            "checkpoint_dir": str(folder),
            "save_checkpoint_interval": 2,
            "num_steps": num_steps,
            "batch_size": 2,
        }
        trainer.json(Call(method="POST", path="/register", json=body))
        trainer.json(Call(method="GET", path="/batch"))
        with handler_of(url, run, sums, events) as handler:
            yield run, trainer, handler, events


def handler_of(url: str, run: Run, sums: Sums, events: list[HandlerEvent]) -> RolloutHandler:
    return RolloutHandler(
        url,
        EnvironmentOffer(desired_name="sums", max_token_length=64, group_size=2),
        token=make_token("env", run=run)[1],
        pace=Pace(poll_seconds=0.01, off_policy_tolerance=2),
        tracker=events.append,
        save=sums.save,
        load=sums.load,
    )


def take_batches(trainer: Connection, number: int) -> None:
    for _ in range(number):
        eventually(lambda: trainer.json(Call(method="GET", path="/batch"))["batch"] is not None)


def test_a_handler_saves_its_state_at_the_interval_of_the_run_and_loads_it_again(
    live_server: LiveServer, tmp_path: Path
) -> None:
    sums = Sums()
    with trained_run(live_server, sums, tmp_path, num_steps=100) as (run, trainer, handler, events):
        thread = threading.Thread(target=handler.run, args=(sums.produce,))
        thread.start()
        take_batches(trainer, 3)
        eventually(lambda: list(tmp_path.glob("env_checkpoints/sums_*/step-*")))
        handler.stop()
        thread.join(timeout=60)
        (folder,) = tmp_path.glob("env_checkpoints/sums_*/step-*")
        text = (folder / "made.txt").read_text()

        later, seen = Sums(), list[HandlerEvent]()
        with handler_of(f"{live_server.url}/atropos/outside", run, later, seen) as again:
            second = threading.Thread(target=again.run, args=(lambda: None,))
            second.start()
            eventually(lambda: "loaded" in [event.kind for event in seen])
            again.stop()
            second.join(timeout=60)

    registration = [event for event in events if event.kind == "registered"]
    assert len(registration) == 1
    assert folder.name in {"step-2", "step-3"}
    assert text == f"{later.made} at {folder.name.removeprefix('step-')}"
    assert later.made > 0
    assert list(tmp_path.rglob("*.part")) == []


def test_a_handler_ends_after_the_planned_steps(live_server: LiveServer, tmp_path: Path) -> None:
    sums = Sums()
    with trained_run(live_server, sums, tmp_path, num_steps=2) as (_, trainer, handler, events):
        thread = threading.Thread(target=handler.run, args=(sums.produce,))
        thread.start()
        take_batches(trainer, 2)
        thread.join(timeout=60)

    assert not thread.is_alive()
    assert handler.ended in {"2 train steps are done", "the run is completed"}
    assert [event.kind for event in events][-1] == "disconnected"


@pytest.mark.parametrize("verb", ["kill", "stop"])
def test_a_handler_ends_with_its_run(verb: str, live_server: LiveServer, tmp_path: Path) -> None:
    sums = Sums()
    with trained_run(live_server, sums, tmp_path, num_steps=100) as (_, _, handler, events):
        thread = threading.Thread(target=handler.run, args=(sums.produce,))
        thread.start()
        eventually(lambda: sums.made > 0)
        with Client(live_server.url, make_token("admin")[1]) as client:
            ended = client.runs.get("outside")
            (ended.kill if verb == "kill" else ended.stop)(reason="enough")
            if verb == "stop":
                ended.kill()  # without waiting for the deadline of the queued groups
        thread.join(timeout=60)

    assert not thread.is_alive()
    assert handler.ended == "the run is stopped"
    kinds = [event.kind for event in events if event.kind not in ("sent", "status", "paused")]
    assert kinds == ["registered", "ended", "disconnected"]


def test_metrics_of_an_environment_are_those_of_its_run(
    live_server: LiveServer, tmp_path: Path
) -> None:
    sums = Sums()
    with trained_run(live_server, sums, tmp_path, num_steps=100) as (_, _, handler, events):
        handler.register()
        handler.log({"solved": np.float32(0.5), "env/all/length": float("nan")}, step=3)
        handler.log({"current_step": True})
        for value in ("0.5", None, [1.0, 2.0]):
            with pytest.raises(ValueError, match="metric 'text' must be a number"):
                handler.log({"solved": 0.1, "text": value})
        with pytest.raises(RolldeckError, match="samples"):
            handler.log({f"name-{number}": 1.0 for number in range(10_000)})
        with Client(live_server.url, make_token("read")[1]) as client:
            run = client.runs.get("outside")
            rows = [
                (row["name"], row["step"], row["value"])
                for row in run.metrics()
                if "env/" in row["name"]
            ]

    assert rows == [
        ("env/sums/current_step", 0, 1.0),
        ("env/all/length", 3, "NaN"),
        ("env/sums/solved", 3, 0.5),
    ]
    first = next(event.values for event in events if event.kind == "metrics")
    assert (first["current_step"], first["metrics"]["env/sums/solved"]) == (3, 0.5)
