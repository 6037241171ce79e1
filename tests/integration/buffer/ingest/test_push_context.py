"""The context of a push of one group is read with its run, before its body."""

from datetime import UTC, datetime

import pytest

from buffer.ingest.schemas.groups import Group
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.arrivals import Receipt
from buffer.ingest.services.pushes import (
    NEWEST_ENVIRONMENTS,
    PushContext,
    accept_groups,
    push_context_of,
)
from buffer.items.models import TrajectoryGroup
from runs.lifecycle.models import Environment, Run
from tests.buffer_factories import body, group
from tests.factories import make_run

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def join(run: Run, *, env_id: int, group_size: int) -> None:
    Environment.objects.create(
        run=run, env_id=env_id, group_size=group_size, registered_at=NOON, last_seen_at=NOON
    )


def pushed(context: PushContext | None, arrived: Group) -> list[Receipt]:
    assert context is not None
    return accept_groups(run=context.run, groups=[arrived], producer="tests", now=NOON)


def test_a_push_context_has_the_run_its_room_and_its_environments() -> None:
    run = make_run(name="math", kind="outside", lenient=True)
    join(run, env_id=0, group_size=4)
    arrived = decode_group(body(group(sequences=4, env_id=0)))
    pushed(push_context_of("math", count=1), arrived)

    context = push_context_of("math", count=1)

    assert context is not None
    assert (context.run, context.run.lenient, context.run.epoch) == (run, True, run.epoch)
    assert (context.items, context.size_bytes) == (1, len(arrived.content))
    assert context.sizes == {0: 4}
    assert context.suffices([arrived])
    assert context.run.lease_seconds == run.lease_seconds, (
        "what was not read is read when asked for"
    )


@pytest.mark.parametrize("fields", [{"kind": "fleet"}, {"archived_at": NOON}, {"name": "other"}])
def test_a_run_that_refuses_groups_has_no_push_context(fields: dict[str, object]) -> None:
    make_run(**({"name": "math", "kind": "outside"} | fields))

    assert push_context_of("math", count=1) is None


def test_one_of_many_environments_is_read_by_its_id() -> None:
    run = make_run(name="math", kind="outside")
    for env_id in range(NEWEST_ENVIRONMENTS + 1):
        join(run, env_id=env_id, group_size=4)
    context = push_context_of("math", count=1)
    assert context is not None
    oldest = decode_group(body(group(sequences=2, env_id=0)))
    assert not context.suffices([oldest])

    receipts = pushed(context, oldest)

    assert receipts == [Receipt(waiting_sequences=2)]


def test_the_id_of_a_refused_push_is_never_reused() -> None:
    run = make_run(name="math", kind="outside")
    unused = push_context_of("math", count=1)
    assert unused is not None

    pushed(push_context_of("math", count=1), decode_group(body(group())))

    assert TrajectoryGroup.objects.get(run=run).pk not in unused.ids
