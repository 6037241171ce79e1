"""A batch that ends its trainer again and again is quarantined, although leases never expire."""

from typing import Any

import pytest

from buffer.items.models import Batch
from runs.alerts.models import Alert
from runs.alerts.services import alerts
from tests.api.buffer.outside_run import OutsideRun, make_words_run
from tests.buffer_factories import REGISTRATION
from tests.factories import NOON
from tests.ledgers import miscounts

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def outside() -> OutsideRun:
    run = make_words_run()
    for mark in range(4):  # two batches
        run.push(mark=mark)
    return run


def register(outside: OutsideRun, kind: str) -> None:
    if kind == "stock":
        answer = outside.post("/atropos/words/register", REGISTRATION, **outside.trainer)
    else:
        content = {"name": "trainer", "resume": kind == "resumed"}
        answer = outside.post("/api/v1/runs/words/trainers", content, **outside.trainer)
    assert answer.status_code == 200, answer.content


def first_marks(outside: OutsideRun, kind: str, *, holding: list[str] | None = None) -> list[int]:
    """Request a batch, and return the first tokens of its groups."""
    if kind == "stock":
        answer = outside.client.get("/atropos/words/batch", headers=outside.trainer).json()
        groups = answer["batch"] or []
    else:
        headers = outside.trainer | {"Accept": "application/json"}
        path = "/api/v1/runs/words/batches/next"
        answer = outside.post(path, {"holding": holding or []}, **headers)
        groups = answer.json()["items"] if answer.status_code == 200 else []
    return [group["tokens"][0][0] for group in groups]


@pytest.mark.parametrize("kind", ["stock", "native", "resumed"])
def test_a_batch_is_quarantined_when_its_trainer_restarts_for_the_third_time(
    outside: OutsideRun, kind: str
) -> None:
    register(outside, kind)
    served = [first_marks(outside, kind)]
    for _ in range(3):
        register(outside, kind)
        served.append(first_marks(outside, kind))

    assert served == [[0, 1], [0, 1], [0, 1], [2, 3]]
    first = Batch.objects.get(ordinal=1)
    assert (first.state, first.lease_expiries) == ("quarantined", 3)
    alerts.watch(now=NOON)
    alert = Alert.objects.get(kind="batch_quarantined")
    assert "registered again without an acknowledgement" in str(outside.get("events")["results"]), (
        alert
    )
    assert miscounts(outside.run.pk) == []


@pytest.mark.parametrize("kind", ["native", "resumed"])
def test_requests_within_one_life_of_the_trainer_do_not_count(
    outside: OutsideRun, kind: str
) -> None:
    register(outside, kind)
    for _ in range(6):
        assert first_marks(outside, kind) == [0, 1]

    assert Batch.objects.get().lease_expiries == 0


def test_an_acknowledged_batch_does_not_count(outside: OutsideRun) -> None:
    for _ in range(2):
        register(outside, "resumed")
        outside.ack(outside.next())

    assert set(Batch.objects.values_list("state", "lease_expiries")) == {("confirmed", 0)}


def test_of_several_batches_of_a_restarted_trainer_only_the_first_counts(
    outside: OutsideRun,
) -> None:
    register(outside, "resumed")
    held = outside.next()["batch"]["id"]
    assert first_marks(outside, "resumed", holding=[held]) == [2, 3]
    register(outside, "resumed")
    assert first_marks(outside, "resumed") == [0, 1]
    assert first_marks(outside, "resumed", holding=[held]) == [2, 3]

    assert list(Batch.objects.order_by("ordinal").values_list("lease_expiries", flat=True)) == [
        1,
        0,
    ]


def test_restarts_and_expired_leases_count_together(outside: OutsideRun) -> None:
    register(outside, "resumed")
    first_marks(outside, "resumed")
    outside.lapse()
    for _ in range(2):
        assert first_marks(outside, "resumed") == [0, 1]
        register(outside, "resumed")

    assert first_marks(outside, "resumed") == [2, 3]
    assert Batch.objects.get(ordinal=1).state == "quarantined"


@pytest.mark.parametrize(
    ("fence", "status", "state"),
    [(2, 200, "dropped"), (1, 409, "leased"), (3, 409, "leased"), (None, 409, "leased")],
    ids=["its fence", "an older fence", "a later fence", "no fence"],
)
def test_a_leased_batch_is_discarded_by_its_fence(
    outside: OutsideRun, fence: int | None, status: int, state: str
) -> None:
    outside.next()
    held = outside.next()  # again, under fence 2
    content: dict[str, Any] = {"reason": "poison"} | ({} if fence is None else {"fence": fence})
    answer = outside.operator.post(
        f"/api/v1/runs/words/batches/{held['batch']['id']}/discard",
        content,
        content_type="application/json",
    )

    assert (answer.status_code, Batch.objects.get().state) == (status, state)
    if status == 200:
        assert outside.ack(held).json()["code"] == "lease_lost"
        assert outside.get("ledger")["groups"]["dropped"] == {"discarded": 2}
    else:
        assert "under fence 2" in answer.json()["detail"]
        assert outside.ack(held).status_code == 200
    assert miscounts(outside.run.pk) == []


@pytest.mark.parametrize("fence", [0, -1, "two", 1.5])
def test_other_fences_are_refused(outside: OutsideRun, fence: object) -> None:
    held = outside.next()
    answer = outside.operator.post(
        f"/api/v1/runs/words/batches/{held['batch']['id']}/discard",
        {"fence": fence},
        content_type="application/json",
    )

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "fence"
