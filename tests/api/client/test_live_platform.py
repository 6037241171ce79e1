"""The client and the platform interoperate over real HTTP."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest
from pytest_django.live_server_helper import LiveServer

from rolldeck.cli import main
from rolldeck.errors import (
    InvalidRequestError,
    LeaseLostError,
    NotAllowedError,
    NotAuthenticatedError,
    NotFoundError,
    RunNotAcceptingError,
    RunOverError,
    TrainerNotRegisteredError,
    VersionNotNewerError,
)
from rolldeck.http import Connection
from rolldeck.replay import ReplayBufferInterface
from rolldeck.trainer import Trainer
from rolldeck.wire import encode
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus
from tests.factories import make_run, make_token
from tests.unit.client.batch_factories import make_fragment

pytestmark = pytest.mark.django_db(transaction=True)

CONFIG = {"buffer": {"batch_size": 2}, "fleet": {"fragment_length": 8}}
WEIGHTS = {"policy_net.0.weight": np.arange(8, dtype=np.float32).reshape(2, 4)}


@pytest.fixture
def run() -> Run:
    return make_run(name="alpha", config=CONFIG)


@pytest.fixture
def connect(live_server: LiveServer, run: Run) -> Iterator[Callable[..., Connection]]:
    """Open connections with fresh tokens for the run, and close all of them at the end."""
    with ExitStack() as open_connections:

        def connected(*scopes: str, token: str | None = None) -> Connection:
            text = token or make_token(*scopes, run=run)[1]
            connection = Connection(live_server.url, text, retry_for_seconds=0)
            return open_connections.enter_context(connection)

        yield connected


@pytest.fixture
def trainer(connect: Callable[..., Connection]) -> Trainer:
    return Trainer("", "alpha", connection=connect("trainer"))


@pytest.fixture
def buffer(connect: Callable[..., Connection]) -> ReplayBufferInterface:
    return ReplayBufferInterface("", "alpha", connection=connect("worker", "trainer"))


def test_a_registration_returns_the_configuration_of_the_run(trainer: Trainer) -> None:
    registration = trainer.register()

    assert registration.epoch == 1
    assert registration.policy_step == -2
    assert registration.batch_size == 2
    assert registration.config["buffer"]["batch_size"] == 2
    assert trainer.status() == "running"


def test_published_weights_are_downloaded_unchanged(trainer: Trainer) -> None:
    trainer.register()
    sent = trainer.publish_weights(WEIGHTS, step=0)
    again = trainer.publish_weights(WEIGHTS, step=0)

    manifest, tensors = trainer.current_weights()

    assert manifest == sent == again
    np.testing.assert_array_equal(tensors["policy_net.0.weight"], WEIGHTS["policy_net.0.weight"])


def test_the_step_of_published_weights_must_increase(trainer: Trainer) -> None:
    trainer.register()
    trainer.publish_weights(WEIGHTS, step=1)

    with pytest.raises(VersionNotNewerError):
        trainer.publish_weights(WEIGHTS, step=0)


def test_an_ended_run_refuses_trainers(trainer: Trainer, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(status=RunStatus.STOPPED)

    with pytest.raises(RunOverError):
        trainer.register()


def test_there_are_no_weights_before_the_first(trainer: Trainer) -> None:
    trainer.register()

    with pytest.raises(NotFoundError):
        trainer.current_weights()


def test_weights_without_a_registration_are_not_sent(trainer: Trainer) -> None:
    with pytest.raises(TrainerNotRegisteredError):
        trainer.publish_weights(WEIGHTS, step=0)


def test_fragments_become_a_batch_that_is_acknowledged_once(
    trainer: Trainer, buffer: ReplayBufferInterface
) -> None:
    trainer.register()
    trainer.publish_weights(WEIGHTS, step=0)
    fragments = [make_fragment(number=n, ends={3: "terminated"}) for n in range(2)]
    receipt = buffer.add_fragments(fragments)

    batch = trainer.next_batch(wait_seconds=5)

    assert (receipt.accepted, receipt.duplicates, receipt.dropped) == (2, 0, {})
    assert batch is not None
    assert (batch.head.ordinal, batch.head.count, batch.head.policy_step) == (1, 2, 0)
    assert batch.stack()["obs"].shape == (2, 8, 4)
    assert [encode(view.fragment) for view in batch.fragments] == list(map(encode, fragments))
    assert trainer.ack(batch) == 1
    assert trainer.ack(batch) == 1
    assert trainer.next_batch(wait_seconds=0) is None


def test_fragments_sent_again_are_counted_as_duplicates(
    trainer: Trainer, buffer: ReplayBufferInterface
) -> None:
    trainer.register()
    trainer.publish_weights(WEIGHTS, step=0)
    buffer.add_fragment(make_fragment())

    receipt = buffer.add_fragments([make_fragment(), make_fragment(number=1)])

    assert (receipt.accepted, receipt.duplicates) == (1, 1)


def test_a_restarted_trainer_receives_its_batch_and_the_previous_lease_is_fenced(
    connect: Callable[..., Connection], run: Run, buffer: ReplayBufferInterface
) -> None:
    token = make_token("trainer", run=run)[1]
    first = Trainer("", "alpha", connection=connect(token=token))
    first.register()
    first.publish_weights(WEIGHTS, step=0)
    buffer.add_fragments([make_fragment(number=n) for n in range(4)])
    before = first.next_batch(wait_seconds=5)
    second = Trainer("", "alpha", connection=connect(token=token))

    registration = second.register(resume=True)
    after = second.next_batch(wait_seconds=5)

    assert before is not None
    assert after is not None
    assert registration.epoch == 1
    assert (after.head.id, after.items) == (before.head.id, before.items)
    assert after.head.fence > before.head.fence
    with pytest.raises(LeaseLostError):
        first.ack(before)
    assert second.ack(after) == 1


def test_the_loop_acknowledges_a_batch_with_the_next_request(
    trainer: Trainer, buffer: ReplayBufferInterface, run: Run
) -> None:
    trainer.register()
    trainer.publish_weights(WEIGHTS, step=0)
    buffer.add_fragments([make_fragment(number=n) for n in range(4)])
    ordinals = []

    for batch in trainer.batches(wait_seconds=0):
        ordinals.append(batch.head.ordinal)
        if batch.head.ordinal == 2:
            Run.objects.filter(pk=run.pk).update(status=RunStatus.COMPLETED)

    assert ordinals == [1, 2]
    assert Run.objects.get(pk=run.pk).served_steps == 2


def test_a_new_session_drops_items_of_the_previous_epoch(
    trainer: Trainer, buffer: ReplayBufferInterface
) -> None:
    trainer.register()
    trainer.publish_weights(WEIGHTS, step=0)
    registration = trainer.register()
    trainer.publish_weights(WEIGHTS, step=0)

    receipt = buffer.add_fragment(make_fragment(epoch=1))

    assert registration.epoch == 2
    assert receipt.dropped == {"stale_epoch": 1}


def test_the_replay_interface_covers_a_training_session(buffer: ReplayBufferInterface) -> None:
    session = buffer.update_training_session()
    buffer.update_model_version(WEIGHTS, step=0)
    buffer.add_fragments([make_fragment(number=n, epoch=session.epoch) for n in range(3)])

    batch = buffer.fetch(2, wait_seconds=5)
    assert batch is not None
    second = buffer.fetch(1, ack=batch)

    assert second is not None
    assert (len(batch), len(second)) == (2, 1)
    buffer.ack(second)
    assert buffer.fetch(1) is None


def test_an_invalid_fragment_is_named_and_its_push_is_not_stored(
    trainer: Trainer, buffer: ReplayBufferInterface
) -> None:
    trainer.register()
    trainer.publish_weights(WEIGHTS, step=0)
    good, bad = make_fragment(), make_fragment(number=1)
    del bad.arrays["reward"]

    with pytest.raises(InvalidRequestError) as refused:
        buffer.add_fragments([good, bad])

    assert "fragments[1].arrays.reward" in str(refused.value)
    assert buffer.add_fragment(good).accepted == 1


def test_an_ended_run_refuses_fragments(
    trainer: Trainer, buffer: ReplayBufferInterface, run: Run
) -> None:
    trainer.register()
    trainer.publish_weights(WEIGHTS, step=0)
    Run.objects.filter(pk=run.pk).update(status=RunStatus.STOPPED)

    with pytest.raises(RunNotAcceptingError):
        buffer.add_fragment(make_fragment())


def test_a_trainer_must_register_before_it_requests_batches(trainer: Trainer) -> None:
    with pytest.raises(TrainerNotRegisteredError):
        trainer.next_batch(wait_seconds=0)


def test_metrics_are_stored(trainer: Trainer) -> None:
    trainer.register()

    trainer.log_metrics({"loss": 0.5, "kl": 0.01}, step=1)
    trainer.log_metrics({}, step=2)

    trainer.log_metrics({"loss": float("nan")}, step=3)

    with pytest.raises(InvalidRequestError):
        trainer.log_metrics({"rolldeck/queued": 1.0}, step=4)


def test_tokens_are_limited_to_their_scopes_and_run(
    connect: Callable[..., Connection], live_server: LiveServer
) -> None:
    with pytest.raises(NotAllowedError):
        Trainer("", "alpha", connection=connect("metrics")).register()
    make_run(name="beta", config=CONFIG)
    with pytest.raises(NotAllowedError):
        Trainer("", "beta", connection=connect("trainer")).register()
    with pytest.raises(NotAuthenticatedError):
        Trainer("", "alpha", connection=connect(token="rd_wrong")).register()


def test_the_command_steers_a_run(
    live_server: LiveServer, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    to = ["--url", live_server.url, "--token", make_token("admin")[1]]

    assert main([*to, "run", "create", "--preset", "cartpole", "--name", "fresh"]) == 0
    assert main([*to, "run", "pause", "alpha", "--reason", "lunch"]) == 0
    assert main([*to, "run", "ls"]) == 0
    assert main([*to, "run", "events", "alpha"]) == 0
    assert main([*to, "run", "resume", "alpha"]) == 0
    assert main([*to, "run", "resume", "alpha"]) == 1

    captured = capsys.readouterr()
    assert "alpha is paused (lunch)" in captured.out
    assert "fresh" in captured.out
    assert "move_not_allowed" in captured.err
