"""Groups travel from an environment to a trainer as arrays, over real HTTP."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest
from pytest_django.live_server_helper import LiveServer

from buffer.items.models import TrajectoryGroup
from rolldeck.errors import InvalidRequestError, RunNotAcceptingError
from rolldeck.groups import InvalidGroupError
from rolldeck.handler import EnvironmentOffer, Pace, RolloutHandler
from rolldeck.http import Call, Connection
from rolldeck.sender import GroupSender
from rolldeck.trainer import Trainer
from runs.lifecycle.models import Run, RunKind
from runs.lifecycle.rules import RunStatus
from tests.buffer_factories import REGISTRATION, group
from tests.factories import make_run, make_token
from tests.unit.client.failing_server import Planned, Seen, serving

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run() -> Run:
    return make_run(name="demo", kind=RunKind.OUTSIDE)


@pytest.fixture
def connection(live_server: LiveServer, run: Run) -> Iterator[Connection]:
    """Open one connection for the environment and the trainer, which has registered."""
    token = make_token("env", "trainer", run=run)[1]
    with Connection(live_server.url, token, retry_for_seconds=0) as opened:
        opened.json(Call(method="POST", path="/atropos/demo/register", json=REGISTRATION))
        yield opened


@pytest.fixture
def sender(connection: Connection) -> GroupSender:
    return GroupSender("", "demo", connection=connection, logprob_dtype="float32")


@pytest.fixture
def trainer(connection: Connection) -> Trainer:
    return Trainer("", "demo", connection=connection)


def test_arrays_are_served_as_they_were_sent(sender: GroupSender, trainer: Trainer) -> None:
    tokens = np.arange(1, 13, dtype=np.int32).reshape(4, 3)
    masks = np.where(tokens > 4, tokens, -100)
    logprobs = -np.linspace(0, 1, 12).reshape(4, 3)
    sent = {"tokens": tokens, "masks": masks, "inference_logprobs": logprobs}

    receipt = sender.push_groups([sent | {"scores": [0.0, 1.0, 0.0, 1.0]}])
    batch = trainer.next_batch(wait_seconds=5)

    assert (receipt.received, receipt.buffered, receipt.dropped) == (1, 0, {})
    assert batch is not None
    arrays = batch.padded(multiple_of=4)
    assert arrays["tokens"].shape == (4, 4)
    np.testing.assert_array_equal(arrays["tokens"][:, :3], tokens)
    np.testing.assert_array_equal(arrays["masks"][:, :3], masks)
    np.testing.assert_array_equal(arrays["inference_logprobs"][:, :3], logprobs.astype(np.float32))


def test_a_batch_mixes_stock_and_binary_environments(
    sender: GroupSender, trainer: Trainer, connection: Connection
) -> None:
    stock = Call(method="POST", path="/atropos/demo/scored_data", json=group(mark=1))
    connection.json(stock)
    sender.push_groups([group(mark=2)])

    batch = trainer.next_batch(wait_seconds=5)

    assert batch is not None
    assert list(batch.codecs) == ["json", "msgpack"]
    assert batch.padded()["tokens"][:, 0].tolist() == [1, 1, 2, 2]
    assert [group["tokens"][0] for group in batch.groups] == [[1, 1, 2], [2, 1, 2]]
    assert batch.groups[0].keys() == batch.groups[1].keys()


def test_refused_pushes_raise_an_error_with_the_reason(sender: GroupSender, run: Run) -> None:
    with pytest.raises(InvalidGroupError, match="masks"):
        sender.push_groups([{"tokens": [[1]], "scores": [1.0]}])
    with pytest.raises(InvalidRequestError) as caught:
        sender.push_groups([group(), group(scores=[1.0])])
    with pytest.raises(ValueError, match="1 to 1024"):
        sender.push_groups([])
    Run.objects.update(status=RunStatus.COMPLETED)
    with pytest.raises(RunNotAcceptingError):
        sender.push_groups([group()])

    assert caught.value.errors[0].field == "groups[1].scores"
    assert TrajectoryGroup.objects.count() == 0


def test_a_push_is_repeated_under_its_key() -> None:
    answers = iter(
        [
            Planned(503),
            Planned(0),
            Planned(body=b'{"received":1,"buffered":0,"dropped":{},"admission_remaining":0}'),
        ]
    )

    def answer(_: Seen) -> Planned:
        return next(answers)

    with serving(answer) as server, GroupSender(server.url, "demo") as sender:
        assert sender.push_groups([group()]).received == 1

    assert len({seen.headers["Idempotency-Key"] for seen in server.seen}) == 1
    assert len({seen.body for seen in server.seen}) == 1
    assert len(server.seen) == 3


def test_a_handler_may_push_through_the_client(
    live_server: LiveServer, run: Run, sender: GroupSender, trainer: Trainer
) -> None:
    token = make_token("env", run=run)[1]
    offer = EnvironmentOffer(desired_name="sums", max_token_length=64, group_size=2)
    url, pace = f"{live_server.url}/atropos/demo", Pace(poll_seconds=0.01)
    with ExitStack() as open_until_the_end:
        handler = RolloutHandler(url, offer, token=token, pace=pace, sender=sender)
        open_until_the_end.enter_context(handler)
        thread = threading.Thread(target=handler.run, args=(group,))
        thread.start()
        assert trainer.next_batch(wait_seconds=0) is None  # environments join after this
        batch = trainer.next_batch(wait_seconds=10)
        handler.stop()
        thread.join(timeout=60)

    assert batch is not None
    assert set(batch.codecs) == {"msgpack"}
    assert batch.padded()["env_ids"].tolist() == [0, 0, 0, 0]
