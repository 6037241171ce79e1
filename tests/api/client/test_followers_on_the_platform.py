"""Followers, samples and priorities through the client, over real HTTP."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest
from django.test import Client
from pytest_django.live_server_helper import LiveServer

from rolldeck.errors import ConflictError, InvalidMessageError, NotFoundError
from rolldeck.http import Call, Connection
from rolldeck.replay import Follower, ReplayBufferInterface
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus
from tests.buffer_factories import body, group
from tests.factories import make_run, make_token
from tests.unit.client.batch_factories import make_fragment

pytestmark = pytest.mark.django_db(transaction=True)

REPLAY = {"sampler": "prioritized", "alpha": 1, "beta": 1, "max_reuse": 50}
WEIGHTS = {"w": np.zeros(2, dtype=np.float32)}


@pytest.fixture
def run() -> Run:
    return make_run(name="alpha", config={"buffer": {"batch_size": 2, "replay": REPLAY}})


Connect = Callable[..., Connection]


@pytest.fixture
def connect(live_server: LiveServer) -> Iterator[Connect]:
    with ExitStack() as open_connections:

        def connected(run: Run, *scopes: str) -> Connection:
            text = make_token(*scopes, run=run)[1]
            connection = Connection(live_server.url, text, retry_for_seconds=0)
            return open_connections.enter_context(connection)

        yield connected


@pytest.fixture
def buffer(connect: Connect, run: Run) -> ReplayBufferInterface:
    connection = connect(run, "worker", "trainer")
    buffer = ReplayBufferInterface("", "alpha", connection=connection)
    buffer.update_training_session()
    buffer.update_model_version(WEIGHTS, step=0)
    return buffer


@pytest.fixture
def follower(connect: Connect, run: Run) -> Follower:
    return Follower("", "alpha", name="eve", connection=connect(run, "trainer"))


def test_items_with_high_priorities_are_sampled_more_often_with_lower_weights(
    buffer: ReplayBufferInterface,
) -> None:
    buffer.add_fragments([make_fragment(number=number) for number in range(2)])
    first = buffer.fetch(2)
    assert first is not None
    assert first.importance_weights.tolist() == [1, 1]

    assert buffer.update_priorities(first, [1.0, 8.0]) == 2
    buffer.ack(first)
    second = buffer.fetch(2)

    assert second is not None
    weights = dict(zip(second.head.item_ids, second.importance_weights.tolist(), strict=True))
    dull, urgent = first.head.item_ids
    assert weights == pytest.approx({dull: 1, urgent: 1 / 8})


def test_a_batch_of_a_queue_has_weights_of_one_and_refuses_priorities(connect: Connect) -> None:
    queue = make_run(name="queue", config={"buffer": {"batch_size": 1}})
    connection = connect(queue, "worker", "trainer")
    buffer = ReplayBufferInterface("", "queue", connection=connection)
    buffer.update_training_session()
    buffer.update_model_version(WEIGHTS, step=0)
    buffer.add_fragment(make_fragment())

    batch = buffer.fetch(1)

    assert batch is not None
    assert batch.importance_weights.tolist() == [1]
    assert buffer.update_priorities(batch, [2.0]) == 0


def test_a_follower_loop_reads_all_items_and_ends_with_the_run(
    buffer: ReplayBufferInterface, follower: Follower, run: Run
) -> None:
    buffer.add_fragments([make_fragment(number=number) for number in range(3)])
    Run.objects.filter(pk=run.pk).update(status=RunStatus.COMPLETED)
    follower.begin()

    read = list(follower)

    assert [view.fragment.number for items in read for view in items.fragments] == [0, 1, 2]
    with pytest.raises(InvalidMessageError, match=r"not groups: .*; fragments are in `fragments`"):
        _ = read[0].groups
    assert follower.state().lag == 0


def test_a_restarted_follower_loop_receives_unacknowledged_items_again(
    buffer: ReplayBufferInterface, follower: Follower
) -> None:
    buffer.add_fragments([make_fragment(number=number) for number in range(2)])
    follower.begin()
    for items in follower:
        first = items
        break

    again = follower.fetch()

    assert again is not None
    assert again.items == first.items
    assert again.head == first.head
    assert follower.state().lag == 2


def test_a_waiting_follower_is_notified_of_new_items(
    buffer: ReplayBufferInterface, follower: Follower
) -> None:
    follower.begin(start="latest")
    assert follower.fetch(wait_seconds=0) is None

    buffer.add_fragment(make_fragment(number=0))

    items = follower.fetch(wait_seconds=20)
    assert items is not None
    assert len(items) == 1


def test_invalid_arguments_are_refused(buffer: ReplayBufferInterface, follower: Follower) -> None:
    with pytest.raises(NotFoundError):
        follower.fetch()
    buffer.add_fragments([make_fragment(number=number) for number in range(2)])
    follower.begin()
    one, both = follower.fetch(count=1), follower.fetch(count=2)
    assert one is not None
    assert both is not None
    follower.ack(both)

    with pytest.raises(ConflictError, match="already past"):
        follower.ack(one)
    with pytest.raises(ConflictError, match="another filter"):
        follower.begin(environment="other")
    follower.forget()
    with pytest.raises(NotFoundError):
        follower.state()


def test_followers_of_an_outside_run_may_filter_by_score(connect: Connect) -> None:
    run = make_run(name="words", kind="outside", batch_size=64, registered_at="2026-01-01T00Z")
    for score in (0.0, 1.0):
        pushed = Client().post(
            "/atropos/words/scored_data",
            data=body(group(scores=[score, score])),
            content_type="application/json",
        )
        assert pushed.status_code == 200
    follower = Follower("", "words", name="eve", connection=connect(run, "trainer"))
    follower.begin(min_score=0.5)

    items = follower.fetch()

    assert items is not None
    assert [group["scores"] for group in items.groups] == [[1.0, 1.0]]
    with pytest.raises(InvalidMessageError, match=r"not fragments: .*; groups are in `groups`"):
        _ = items.fragments


def test_the_followers_of_a_run_are_listed_with_their_lag(
    buffer: ReplayBufferInterface, follower: Follower, connect: Connect, run: Run
) -> None:
    buffer.add_fragment(make_fragment())
    follower.begin()

    answer = connect(run, "trainer").json(Call(method="GET", path="/api/v1/runs/alpha/followers"))

    assert [(row["name"], row["lag"]) for row in answer["results"]] == [("eve", 1)]
