"""Trainers: waiting for batches, outages, lost leases and metric values."""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from rolldeck.errors import InvalidAnswerError, TrainerNotRegisteredError
from rolldeck.http import Backoff, Connection
from rolldeck.trainer import Trainer
from tests.unit.client.batch_factories import make_batch_body, make_fragment
from tests.unit.client.failing_server import Planned, Rule, Seen, in_turn, serving

NONE_YET = Planned(204)
BATCH = Planned(body=make_batch_body([make_fragment()]))


@contextmanager
def training(*answers: Planned, rule: Rule | None = None) -> Iterator[tuple[Trainer, list[Seen]]]:
    backoff = Backoff(first_seconds=0.01, most_seconds=0.02)
    with (
        serving(rule or in_turn(*answers)) as server,
        Connection(server.url, backoff=backoff) as connection,
    ):
        yield Trainer(server.url, "demo", connection=connection), server.seen


def test_early_answers_do_not_cause_a_busy_loop() -> None:
    started = time.monotonic()

    with training(NONE_YET) as (trainer, seen):
        assert trainer.next_batch(wait_seconds=0.6) is None

    assert time.monotonic() - started >= 0.6
    assert len(seen) <= 4


def test_an_ended_run_is_not_awaited() -> None:
    over = Planned(204, headers={"Rolldeck-Run-Status": "stopped"})

    with training(over, over) as (trainer, seen):
        assert trainer.next_batch(wait_seconds=30) is None

    assert len(seen) == 1


def test_no_request_exceeds_the_longest_wait() -> None:
    with training(BATCH) as (trainer, seen):
        trainer.next_batch(wait_seconds=500)

    assert json.loads(seen[0].body) == {"wait_seconds": 60.0}


def test_an_outage_between_two_batches_is_survived() -> None:
    with training(Planned(0), Planned(502), Planned(503), BATCH) as (trainer, seen):
        batch = trainer.next_batch(wait_seconds=5)

    assert batch is not None
    assert len({request.headers["Idempotency-Key"] for request in seen}) == 1


def test_an_interrupted_batch_stays_unacknowledged() -> None:
    with training(BATCH) as (trainer, seen):
        for _batch in trainer.batches():
            break

    assert [request.path for request in seen] == ["/api/v1/runs/demo/batches/next"]


def test_an_expired_lease_is_logged_and_the_loop_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def answer(request: Seen) -> Planned:
        if request.path.endswith("/ack"):
            return Planned(409, b'{"code": "lease_lost", "detail": "Leased again."}')
        return BATCH

    with training(rule=answer) as (trainer, seen), caplog.at_level(logging.WARNING, "rolldeck"):
        for count, _batch in enumerate(trainer.batches(), start=1):
            if count == 2:
                break

    assert "was not acknowledged: Leased again." in caplog.text
    assert len(seen) == 3


@pytest.mark.parametrize(
    ("acknowledges", "publishes", "warns"),
    [(False, True, True), (True, True, False), (False, False, False)],
)
def test_a_batch_that_is_fetched_again_after_weights_were_published_is_logged(
    caplog: pytest.LogCaptureFixture, acknowledges: bool, publishes: bool, warns: bool
) -> None:
    acknowledged: list[str] = []

    def answer(request: Seen) -> Planned:
        if request.path.endswith("/trainers"):
            return Planned(body=b'{"uuid": 1, "epoch": 1, "policy_step": -2}')
        if request.path.endswith("/ack"):
            acknowledged.append(request.path)
            return Planned(body=b'{"served_steps": 1}')
        if request.path.endswith("/weights"):
            tensor = {"name": "x", "dtype": "F64", "shape": [1]}
            manifest = {"epoch": 1, "step": 1, "sha256": "0" * 64, "size_bytes": 8}
            return Planned(201, json.dumps(manifest | {"tensors": [tensor]}).encode())
        return Planned(body=make_batch_body([make_fragment()], ordinal=1 + len(acknowledged)))

    with training(rule=answer) as (trainer, _), caplog.at_level(logging.WARNING, "rolldeck"):
        trainer.register()
        for _step in range(2):
            batch = trainer.next_batch()
            assert batch is not None
            if publishes:
                trainer.publish_weights({"x": np.zeros(1)}, step=1)
            if acknowledges:
                trainer.ack(batch)

    assert ("acknowledge each batch with trainer.ack(batch)" in caplog.text) is warns


def test_values_that_are_not_finite_are_sent_as_text() -> None:
    with training(Planned(201, b'{"stored": 4}')) as (trainer, seen):
        inf = float("inf")
        trainer.log_metrics({"kl": 0.0, "loss": float("nan"), "lr": inf, "gap": -inf}, step=1)

    samples = json.loads(seen[0].body)["samples"]
    assert [sample["value"] for sample in samples] == [0.0, "NaN", "Infinity", "-Infinity"]


def test_weights_need_a_registration_first() -> None:
    with training(NONE_YET) as (trainer, _), pytest.raises(TrainerNotRegisteredError):
        trainer.publish_weights({"x": np.zeros(1)}, step=0)


def test_an_answer_without_a_registration_is_an_error() -> None:
    answer = Planned(body=b'{"uuid": 1}')

    with training(answer) as (trainer, _), pytest.raises(InvalidAnswerError, match="epoch"):
        trainer.register()
