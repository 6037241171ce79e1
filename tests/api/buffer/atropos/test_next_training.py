"""The registration after the planned train steps of a run begins the next training."""

import pytest
from django.conf import settings

from buffer.items.models import Batch, TrajectoryGroup
from runs.lifecycle.models import Run
from tests.api.buffer.stock_server import Server
from tests.buffer_factories import group
from tests.factories import bearer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server() -> Server:
    return Server()


def train(server: Server, *, steps: int, batch_size: int = 2, mark: int = 0) -> list[int]:
    """Register a stock trainer, push its groups and take its batches; return their marks."""
    server.register(num_steps=steps, batch_size=batch_size)
    for number in range(steps * batch_size // 2):
        assert server.post("/scored_data", group(mark=mark + number)).status_code == 200
    batches = [server.batch() for _ in range(steps)]
    return [one["tokens"][0][0] for batch in batches for one in batch]


def current() -> Run:
    return Run.objects.current().get(is_default=True)


def test_the_next_training_begins_while_the_run_drains(server: Server) -> None:
    assert train(server, steps=2) == [0, 1]
    drained = current()

    assert drained.status == "draining"
    assert train(server, steps=3, batch_size=4, mark=10) == list(range(10, 16))
    drained.refresh_from_db()
    assert (drained.status, current().batch_size) == ("completed", 4)
    assert (
        list(Batch.objects.filter(run=drained).values_list("state", flat=True)) == ["confirmed"] * 2
    )


@pytest.mark.parametrize("status", ["draining", "completed"])
def test_an_environment_that_registers_before_the_next_trainer_waits(
    server: Server, status: str
) -> None:
    train(server, steps=1)
    Run.objects.update(status=status)

    assert server.register_env() == {"status": "wait for trainer to start"}
    server.register(num_steps=2, batch_size=2)
    assert server.register_env() == {"status": "wait for trainer to start"}
    server.get("/batch")
    assert server.register_env()["status"] == "success"


@pytest.mark.parametrize("status", ["stopped", "failed"])
def test_a_run_that_an_operator_or_a_failure_ended_refuses_registrations(
    server: Server, status: str
) -> None:
    train(server, steps=2)
    Run.objects.update(status=status)

    refused = server.post(
        "/register-env",
        {"max_token_length": 8, "desired_name": "a", "weight": 1.0, "group_size": 2},
    )
    assert refused.status_code == 409
    assert status in refused.json()["detail"]


def test_a_drain_by_an_operator_is_no_end_of_the_training(server: Server) -> None:
    server.register(num_steps=5, batch_size=2)
    run = current()
    Run.objects.update(status="draining", drain_target="completed")

    server.register(num_steps=5, batch_size=2)

    assert current().pk == run.pk


@pytest.mark.parametrize("status", ["completed", "stopped", "failed"])
def test_a_run_that_is_over_reports_it_with_null(server: Server, status: str) -> None:
    train(server, steps=1)
    assert server.get("/batch").json() == {"batch": None}
    assert "status" not in server.get("/status").json()
    Run.objects.update(status=status)

    assert server.get("/batch").json() == {"batch": None, "status": status}
    assert server.get("/status").json()["status"] == status


@pytest.mark.parametrize(("setting", "is_new"), [("keep", False), ("reset", True)])
def test_a_second_registration_by_the_setting_of_the_run(
    server: Server, setting: str, is_new: bool
) -> None:
    server.register(num_steps=5, batch_size=2)
    server.post("/scored_data", group(mark=1))
    first = current()
    changed = server.client.patch(
        f"/api/v1/runs/{first.name}",
        {"on_second_registration": setting},
        content_type="application/json",
        headers=bearer("admin"),
    )
    assert (changed.status_code, changed.json()["on_second_registration"]) == (200, setting)

    server.register(num_steps=7, batch_size=4)

    assert (current().pk != first.pk) is is_new
    assert (current().batch_size, current().num_steps) == ((4, 7) if is_new else (2, 5))
    assert current().on_second_registration == setting


def test_other_values_of_the_setting_are_refused(server: Server) -> None:
    server.register()
    refused = server.client.patch(
        f"/api/v1/runs/{current().name}",
        {"on_second_registration": "drop"},
        content_type="application/json",
        headers=bearer("admin"),
    )

    assert refused.status_code == 400
    assert refused.json()["errors"][0]["field"] == "on_second_registration"


def test_a_batch_whose_bytes_could_not_be_read_is_served_with_the_next_request(
    server: Server,
) -> None:
    server.register(batch_size=2)
    server.post("/scored_data", group(mark=7, tokens=30_000))
    stored = settings.ROLLDECK_VAR / "payloads" / TrajectoryGroup.objects.get().object
    hidden = stored.rename(stored.with_suffix(".hidden"))

    assert server.get("/batch").status_code == 410
    hidden.rename(stored)

    assert [one["tokens"][0][0] for one in server.batch() or []] == [7]
