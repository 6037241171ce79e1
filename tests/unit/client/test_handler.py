"""A rollout handler follows the protocol from registration to disconnection."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rolldeck.errors import InvalidAnswerError
from rolldeck.handler import (
    EnvironmentOffer,
    HandlerEvent,
    Pace,
    RolloutHandler,
)
from rolldeck.pacing import HandlerState
from tests.unit.client.failing_server import Planned, Seen, Server, serving

OFFER = EnvironmentOffer(desired_name="sums", max_token_length=64, group_size=2)
GROUP = {"tokens": [[1], [2]], "masks": [[1], [2]], "scores": [0.0, 1.0]}


class Queue:
    """Responses of a stock server, with a queue that the test sets."""

    def __init__(self, *, batch_size: int = 4, waits: int = 0) -> None:
        self.batch_size = batch_size
        self.waits = waits
        self.groups: list[int] = []
        """Queue lengths in successive status-env responses; the last one repeats."""

    def __call__(self, request: Seen) -> Planned:
        return Planned(body=json.dumps(self.answer(request)).encode())

    def answer(self, request: Seen) -> dict[str, Any]:
        if request.path == "/register-env":
            self.waits -= 1
            if self.waits >= 0:
                return {"status": "wait for trainer to start"}
            return {
                "status": "success",
                "env_id": 3,
                "wandb_name": "sums_0",
                "checkpoint_dir": "",
                "starting_step": 0,
                "checkpoint_interval": 1,
                "num_steps": 10,
            }
        if request.path == "/status-env":
            queued = self.groups.pop(0) if len(self.groups) > 1 else self.groups[0]
            return {"current_step": 5, "queue_size": queued, "env_weight": 1.0}
        answers: dict[str, dict[str, Any]] = {
            "/wandb_info": {"group": "g", "project": "p"},
            "/info": {"batch_size": self.batch_size, "max_token_len": 64},
        }
        return answers.get(request.path, {"status": "success"})


@contextmanager
def handling(queue: Queue) -> Iterator[tuple[RolloutHandler, Server, list[HandlerEvent]]]:
    events: list[HandlerEvent] = []
    pace = Pace(poll_seconds=0.0, off_policy_tolerance=3, resume_fraction=0.75)
    with serving(queue) as server, RolloutHandler(server.url, OFFER, pace=pace) as handler:
        handler._tracker = events.append
        yield handler, server, events


def paths(server: Server) -> list[str]:
    return [request.path for request in server.seen]


def test_a_handler_polls_until_a_trainer_has_started_then_reads_the_metrics_project() -> None:
    with handling(Queue(waits=2)) as (handler, server, events):
        registration = handler.register()

        assert registration is not None
        assert (registration.env_id, registration.wandb_name) == (3, "sums_0")
        assert (registration.group, registration.project) == ("g", "p")
        assert paths(server)[:4] == ["/register-env"] * 3 + ["/wandb_info"]
        assert json.loads(server.seen[0].body) == {
            "desired_name": "sums",
            "max_token_length": 64,
            "weight": 1.0,
            "group_size": 2,
            "min_batch_allocation": None,
        }
        assert events[0].kind == "registered"


def test_a_handler_pauses_over_the_mark_and_resumes_below_the_lower_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = Queue(batch_size=4)
    # Pauses at 12 sequences, 6 groups of two; resumes at 9 sequences, so at 4 groups.
    queue.groups = [6, 7, 6, 5, 4, 0]
    produced: list[str] = []

    with handling(queue) as (handler, server, events):

        def produce() -> dict[str, Any]:
            produced.append(handler.state)
            if len(produced) == 4:
                handler.stop()
            return GROUP

        with caplog.at_level(logging.INFO, "rolldeck"):
            handler.run(produce)

    kinds = [event.kind for event in events if event.kind not in ("status", "registered")]
    assert kinds == ["sent", "sent", "paused", "resumed", "sent", "sent", "disconnected"]
    assert set(produced) == {HandlerState.RUNNING}
    assert "sums paused at step 5: 14 sequences queued" in caplog.text
    assert "sums resumed at step 5: 8 sequences queued" in caplog.text
    assert paths(server)[-1] == "/disconnect-env"
    assert paths(server).count("/disconnect-env") == 1


def test_status_requests_are_get_requests_with_a_body() -> None:
    queue = Queue()
    queue.groups = [9]

    with handling(queue) as (handler, server, _events):
        handler.register()
        status = handler.status()

        assert status.queued_groups == 9
        assert (server.seen[-1].method, server.seen[-1].path) == ("GET", "/status-env")
        assert json.loads(server.seen[-1].body) == {"env_id": 3}


def test_one_group_and_several_have_their_own_routes_and_none_is_lost() -> None:
    with handling(Queue()) as (handler, server, _events):
        handler.register()
        before = len(server.seen)
        handler.send(GROUP)
        handler.send([GROUP, GROUP])
        handler.send(None)
        handler.send([])

        assert paths(server)[before:] == ["/scored_data", "/scored_data_list"]
        assert json.loads(server.seen[before].body) == GROUP | {"env_id": 3}
        assert [group["env_id"] for group in json.loads(server.seen[-1].body)] == [3, 3]


def test_a_handler_can_be_stopped_while_it_waits_for_a_trainer() -> None:
    with handling(Queue(waits=10_000)) as (handler, server, _events):
        handler.stop()
        handler.run(lambda: GROUP)

        assert "/disconnect-env" not in paths(server)


def test_an_answer_without_a_registration_is_an_error() -> None:
    with (
        serving(lambda _request: Planned(body=b'{"status": "failure"}')) as server,
        RolloutHandler(server.url, OFFER) as handler,
        pytest.raises(InvalidAnswerError, match="failure"),
    ):
        handler.register()
