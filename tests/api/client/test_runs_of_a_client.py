"""A client creates, watches and controls runs of the platform."""

import threading
from collections.abc import Iterator

import pytest
from pytest_django.live_server_helper import LiveServer

import rolldeck
from rolldeck import Client
from rolldeck.errors import (
    ConflictError,
    InvalidRequestError,
    MoveNotAllowedError,
    NotAllowedError,
    NotFoundError,
    RunOverError,
)
from rolldeck.trainer import Trainer
from runs.lifecycle.models import Run
from tests.factories import make_run, make_token

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def client(live_server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of the URL and token of the environment."""
    monkeypatch.setenv("ROLLDECK_URL", live_server.url)
    monkeypatch.setenv("ROLLDECK_TOKEN", make_token("admin")[1])
    with Client(retry_for_seconds=0) as client:
        yield client


def test_a_run_is_created_with_its_fields_and_started(client: Client) -> None:
    run = client.runs.create("alpha", kind="outside", tags=["baseline"])

    assert (run.name, run.status, run.row["tags"]) == ("alpha", "running", ["baseline"])
    assert client.runs.get("alpha").row == run.refresh().row
    assert [one.name for one in client.runs.list("tag:baseline")] == ["alpha"]
    assert list(client.runs.list("tag:other")) == []


def test_a_run_of_a_fleet_has_its_configuration(client: Client) -> None:
    run = client.runs.create("pole", config={"fleet": {"num_workers": 3}}, start=False)

    assert run.status == "draft"
    assert run.row["config"]["fleet"]["num_workers"] == 3


def test_verbs_store_their_reason(client: Client) -> None:
    run = client.runs.create("alpha", kind="outside")

    assert run.pause(reason="judge is down").status == "paused"
    assert run.resume().status == "running"
    assert run.drain().status in {"draining", "completed"}
    assert [event for event in run.events() if "judge is down" in str(event)]


def test_errors_name_the_cause(client: Client) -> None:
    client.runs.create("alpha", kind="outside")

    with pytest.raises(NotFoundError):
        client.runs.get("beta")
    with pytest.raises(ConflictError):
        client.runs.create("alpha", kind="outside")
    with pytest.raises(InvalidRequestError) as refused:
        client.runs.create("beta", config={"fleet": {"workers": 3}})
    assert "workers" in str(refused.value)
    with pytest.raises(MoveNotAllowedError):
        client.runs.get("alpha").resume()


def test_a_wait_ends_with_the_status_or_another_end(client: Client) -> None:
    run = client.runs.create("alpha", kind="outside")

    with pytest.raises(TimeoutError, match="run alpha is running, not paused, after 0 s"):
        run.wait(until="paused", timeout_seconds=0)
    pausing = threading.Timer(0.1, client.runs.get("alpha").pause)
    pausing.start()
    assert run.wait(until="paused", timeout_seconds=20, poll_seconds=0.05).status == "paused"
    pausing.join()
    run.kill()
    assert run.wait(timeout_seconds=20, poll_seconds=0.05).status == "stopped"
    with pytest.raises(RunOverError, match="run alpha is stopped"):
        run.wait(until="running", timeout_seconds=20)


def test_metrics_and_events_of_a_run_are_read(client: Client) -> None:
    run = client.runs.create("alpha", kind="outside")
    with Trainer(run="alpha") as trainer:
        trainer.register(batch_size=2)
        trainer.log_metrics({"loss": 0.5, "kl": 0.1}, step=1)
        trainer.log_metrics({"loss": 0.4}, step=2)

    assert [(row["step"], row["value"]) for row in run.metrics("loss")] == [(2, 0.4), (1, 0.5)]
    assert {row["name"] for row in run.metrics()} >= {"loss", "kl"}
    assert "trainer_registered" in {event["kind"] for event in run.events()}


def test_a_log_that_no_fleet_answers_is_an_error(client: Client) -> None:
    make_run(name="pole")

    with pytest.raises(NotFoundError, match="fleet"):
        list(client.runs.get("pole").logs())
    assert Run.objects.filter(name="pole").exists()


def test_the_package_has_at_most_twelve_public_names() -> None:
    public = [getattr(rolldeck, name) for name in rolldeck.__all__]

    assert len(public) == len(set(rolldeck.__all__)) <= 12
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = rolldeck.Nothing


def test_a_run_is_deleted_with_a_reason_once_it_has_ended(client: Client) -> None:
    run = client.runs.create("alpha", kind="outside")

    with pytest.raises(
        ConflictError, match="alpha is running: stop or kill it before you delete it"
    ):
        run.delete(reason="wrong data")
    run.kill(reason="wrong data")
    deletion = run.delete(reason="wrong data")

    assert (deletion["run"], deletion["reason"]) == ("alpha", "wrong data")
    with pytest.raises(NotFoundError, match="run 'alpha' was deleted on"):
        run.refresh()
    assert client.runs.create("alpha", kind="outside").status == "running"


def test_a_trainer_creates_its_outside_run_in_one_call(client: Client) -> None:
    with Trainer(run="coins") as trainer:
        with pytest.raises(NotFoundError):
            trainer.register(batch_size=8)
        first = trainer.register(batch_size=8, create_run=True)
        again = trainer.register(create_run=True, resume=True)

    run = client.runs.get("coins")
    assert (run.row["kind"], run.status, run.row["batch_size"]) == ("outside", "running", 8)
    assert (first.batch_size, again.batch_size) == (8, 8)
    assert len(list(client.runs.list())) == 1


def test_a_trainer_without_the_right_creates_no_run(client: Client) -> None:
    token = make_token("trainer")[1]

    with Trainer(run="coins", token=token) as trainer, pytest.raises(NotAllowedError):
        trainer.register(batch_size=8, create_run=True)
    assert list(client.runs.list()) == []
