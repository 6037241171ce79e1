"""Discarded groups, muted environments and waiting groups."""

from typing import Any

import pytest

from buffer.items.models import TrajectoryGroup
from runs.events.models import RunEvent
from tests.api.buffer.outside_run import OutsideRun, make_mixed_run
from tests.buffer_factories import ENVIRONMENT, body
from tests.factories import make_run
from tests.ledgers import miscounts

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def outside() -> OutsideRun:
    """A run whose batches are four sequences, with two environments that send groups of two."""
    return make_mixed_run()


def discard(outside: OutsideRun, chosen: list[int], **fields: Any) -> Any:
    return outside.operator.post(
        "/api/v1/runs/words/groups/discard",
        data=body({"groups": chosen, "reason": "its prompt is broken"} | fields),
        content_type="application/json",
    )


def ids() -> list[int]:
    return list(TrajectoryGroup.objects.order_by("pk").values_list("pk", flat=True))


def mute(outside: OutsideRun, env_id: int, *, muted: bool) -> Any:
    return outside.operator.patch(
        f"/api/v1/runs/words/environments/{env_id}",
        data=body({"muted": muted, "reason": "it rewards nonsense"}),
        content_type="application/json",
    )


def test_a_queued_group_is_discarded_once_and_never_served(outside: OutsideRun) -> None:
    for mark in (1, 2, 3):
        outside.push(mark=mark, env_id=0)
    first, _, _ = ids()

    done = discard(outside, [first])
    again = discard(outside, [first])

    assert (done.status_code, again.status_code) == (200, 200)
    assert done.json() == again.json() == {"results": [{"id": first, "problem": ""}]}
    batch = outside.next()
    assert [item["tokens"][0][0] for item in batch["items"]] == [2, 3]
    assert outside.get("ledger")["groups"]["dropped"] == {"discarded": 1}
    assert miscounts(outside.run.pk) == []
    event = RunEvent.objects.get(kind="groups_discarded")
    assert (event.actor, event.reason) == ("user:olga", "its prompt is broken")


def test_a_leased_group_is_not_discarded_with_the_others(outside: OutsideRun) -> None:
    for mark in (1, 2, 3):
        outside.push(mark=mark, env_id=0)
    held, _, free = ids()
    assert outside.next() is not None

    answer = discard(outside, [held, free])

    assert answer.json()["results"] == [
        {"id": held, "problem": "its batch is leased to a trainer"},
        {"id": free, "problem": ""},
    ]
    assert TrajectoryGroup.objects.get(pk=held).state == "leased"


def test_a_group_that_waits_for_others_can_be_discarded(outside: OutsideRun) -> None:
    outside.push(mark=1, env_id=0, sequences=1)

    assert discard(outside, ids()).json()["results"][0]["problem"] == ""
    outside.push(mark=2, env_id=0, sequences=1)

    assert outside.get("queue")["environments"][0]["waiting"] == 1
    assert miscounts(outside.run.pk) == []


@pytest.mark.parametrize(
    ("fields", "status", "field"),
    [
        ({"reason": ""}, 400, "reason"),
        ({"groups": []}, 400, "groups"),
        ({"groups": ["x"]}, 400, "groups[0]"),
        ({"groups": [9_999_999]}, 404, None),
    ],
)
def test_invalid_parameters_are_refused(
    outside: OutsideRun, fields: dict[str, Any], status: int, field: str | None
) -> None:
    outside.push(mark=1, env_id=0)

    answer = discard(outside, ids(), **fields)

    assert answer.status_code == status
    if field:
        assert answer.json()["errors"][0]["field"] == field
    assert TrajectoryGroup.objects.get().state == "queued"


def test_a_group_of_another_run_is_not_found(outside: OutsideRun) -> None:
    outside.push(mark=1, env_id=0)
    make_run(name="other", kind="outside")

    answer = outside.operator.post(
        "/api/v1/runs/other/groups/discard",
        data=body({"groups": ids(), "reason": "x"}),
        content_type="application/json",
    )

    assert answer.status_code == 404
    assert TrajectoryGroup.objects.get().state == "queued"


def test_pushes_of_a_muted_environment_are_counted_and_not_served(outside: OutsideRun) -> None:
    outside.push(mark=1, env_id=0)

    response = mute(outside, 0, muted=True)
    outside.push(mark=2, env_id=0)
    outside.push(mark=3, env_id=1)

    assert (response.status_code, response.json()["muted"]) == (200, True)
    batch = outside.next()
    assert [item["tokens"][0][0] for item in batch["items"]] == [1, 3]
    ledger = outside.get("ledger")["groups"]
    assert (ledger["accepted"], ledger["dropped"]) == (3, {"muted": 1})
    assert miscounts(outside.run.pk) == []
    event = RunEvent.objects.get(kind="environment_changed")
    assert (event.actor, event.reason) == ("user:olga", "it rewards nonsense")


def test_an_unmuted_environment_is_served_again(outside: OutsideRun) -> None:
    mute(outside, 0, muted=True)
    outside.push(mark=1, env_id=0)
    mute(outside, 0, muted=False)

    outside.push(mark=2, env_id=0)
    outside.push(mark=3, env_id=0)

    assert [item["tokens"][0][0] for item in outside.next()["items"]] == [2, 3]


def test_several_groups_at_once_are_muted_too(outside: OutsideRun) -> None:
    mute(outside, 1, muted=True)
    groups = [
        {"tokens": [[mark], [mark]], "masks": [[mark], [mark]], "scores": [0, 1], "env_id": env}
        for mark, env in ((1, 0), (2, 1), (3, 0))
    ]

    pushed = outside.post("/atropos/words/scored_data_list", groups)

    assert pushed.status_code == 200
    states = TrajectoryGroup.objects.order_by("pk").values_list("state", "drop_reason")
    assert list(states) == [("queued", ""), ("dropped", "muted"), ("queued", "")]


def test_no_batch_waits_for_the_minimum_of_a_muted_environment(outside: OutsideRun) -> None:
    outside.operator.patch(
        "/api/v1/runs/words/environments/1",
        data=body({"min_batch_allocation": 0.5}),
        content_type="application/json",
    )
    for mark in (1, 2):
        outside.push(mark=mark, env_id=0)
    assert outside.get("batches/preview")["reason"] == "waiting_for_minimum"

    mute(outside, 1, muted=True)

    assert outside.get("batches/preview")["reason"] is None


def test_incomplete_groups_are_listed_by_size_and_age(outside: OutsideRun) -> None:
    outside.post(
        "/atropos/words/register-env", ENVIRONMENT | {"desired_name": "odd", "group_size": 8}
    )
    for mark, sequences in enumerate((3, 3, 1)):
        outside.push(mark=mark + 1, env_id=2, sequences=sequences)

    (row,) = outside.get("queue")["environments"]

    assert (row["waiting"], row["waiting_sizes"]) == (3, {"1": 1, "3": 2})
    assert (row["group_size"], row["oldest_at"]) == (8, None)
    assert row["waiting_since"] is not None


def test_pushes_of_muted_environments_are_shown_too(outside: OutsideRun) -> None:
    assert outside.get("environments/push-rates") == {"results": [], "next": None}
    mute(outside, 1, muted=True)
    for mark, env_id in enumerate((0, 0, 0, 1)):
        outside.push(mark=mark + 1, env_id=env_id)

    rows = outside.get("environments/push-rates")["results"]

    assert [(row["env_id"], row["per_second"] * 60) for row in rows] == [
        (0, pytest.approx(3)),
        (1, pytest.approx(1)),
    ]
    assert all(row["newest_at"] for row in rows)
