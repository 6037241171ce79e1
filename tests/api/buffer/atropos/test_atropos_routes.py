"""Atropos' routes as its own environments and trainers use them."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from buffer.batches.services.lease_expiry import return_expired_batches
from buffer.batches.services.leases import this_process
from buffer.ingest.models import IdempotencyRecord
from buffer.items.models import Batch, TrajectoryGroup
from buffer.items.queries import ledger_part
from runs.lifecycle.models import Run
from tests.api.buffer.stock_server import Server
from tests.buffer_factories import body, group
from tests.ledgers import miscounts

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server() -> Server:
    return Server()


def marks(batch: list[dict[str, Any]]) -> list[int]:
    return [group["tokens"][0][0] for group in batch]


def test_the_root_has_the_greeting_of_atropos(server: Server) -> None:
    assert server.get("/").json() == {"message": "AtroposLib API"}


def test_requests_before_a_registration_report_that_no_trainer_started(server: Server) -> None:
    assert server.get("/wandb_info").json() == {"group": None, "project": None}
    assert server.get("/info").json() == {"batch_size": -1, "max_token_len": -1}
    assert server.get("/status").json() == {"current_step": 0, "queue_size": 0}
    assert server.get("/batch").json() == {
        "status": "error",
        "message": "Trainer not registered. Call /register first.",
        "batch": [],
    }
    assert server.get("/latest_example").json()["tokens"] == []


def test_groups_are_served_oldest_first_in_exact_batches(server: Server) -> None:
    assert isinstance(server.register()["uuid"], int)

    for mark in range(6):
        answer = server.post("/scored_data", group(mark=mark))
        assert answer.json() == {"status": "received"}

    assert server.get("/status").json() == {"current_step": 0, "queue_size": 6}
    assert marks(server.batch()) == [0, 1]
    assert server.get("/status").json() == {"current_step": 1, "queue_size": 4}
    assert marks(server.batch()) == [2, 3]
    assert marks(server.batch()) == [4, 5]
    assert server.batch() is None
    assert server.get("/status").json() == {"current_step": 3, "queue_size": 0}


def test_the_next_request_acknowledges_the_previous_batch(server: Server) -> None:
    server.register()
    server.post("/scored_data_list", [group(mark=mark) for mark in range(2)])

    server.batch()
    assert Batch.objects.get().state == "leased"
    server.batch()

    assert Batch.objects.get().state == "confirmed"
    run = Run.objects.get()
    ledger = ledger_part(run.pk).groups
    assert (ledger.accepted, ledger.served, ledger.balanced) == (2, 2, True)
    assert miscounts(run.pk) == []


def test_an_interrupted_response_is_repeated_with_the_same_bytes(server: Server) -> None:
    server.register()
    server.post("/scored_data_list", [group(mark=mark) for mark in range(4)])
    response = server.get("/batch")
    first = response.content
    # What noticing the hang-up writes.
    Batch.objects.update(delivered_at=None, sending_since=None, sender="")

    again = server.get("/batch")

    assert again.content == first
    assert server.get("/status").json()["current_step"] == 1


@pytest.mark.parametrize(
    ("sending_for", "is_returned"), [(timedelta(seconds=30), False), (timedelta(seconds=61), True)]
)
def test_a_batch_that_may_have_been_received_outlives_its_lease_for_a_minute(
    server: Server, sending_for: timedelta, is_returned: bool
) -> None:
    server.register()
    server.post("/scored_data_list", [group(mark=mark) for mark in range(2)])
    server.batch()
    # As after an outage of the database, during which the end of the answer is not recorded.
    Batch.objects.update(
        delivered_at=None,
        sending_since=Now() - sending_for,
        sender=this_process(),
        lease_expires_at=Now() - timedelta(seconds=1),
    )

    assert return_expired_batches() == is_returned


def test_a_restarted_trainer_receives_its_unacknowledged_batch_again(server: Server) -> None:
    server.register()
    server.post("/scored_data_list", [group(mark=mark) for mark in range(4)])
    first = server.batch()

    server.register()

    assert server.batch() == first
    assert marks(server.batch()) == [2, 3]


def test_environments_wait_for_the_first_batch_request(server: Server) -> None:
    assert server.register_env() == {"status": "wait for trainer to start"}
    server.register(starting_step=7)
    assert server.register_env() == {"status": "wait for trainer to start"}
    assert server.batch() is None

    assert server.register_env() == {
        "status": "success",
        "env_id": 0,
        "wandb_name": "math_0",
        "checkpoint_dir": "checkpoints",
        "starting_step": 7,
        "checkpoint_interval": 10,
        "num_steps": 100,
    }
    assert server.register_env()["wandb_name"] == "math_1"
    assert server.register_env(desired_name="code")["env_id"] == 2


def test_groups_are_served_as_they_were_sent(server: Server) -> None:
    server.register(batch_size=2)
    sent = group(
        advantages=[[0.1, 1e-17, -3.0]] * 2,
        ref_logprobs=[[-0.1, -2.5e-8, 0.0]] * 2,
        inference_logprobs=[[-1.0, -2.0, -3.0]] * 2,
        messages=[[{"role": "user", "content": "ü\u2028x", "unknown": {"deep": [1, None]}}]] * 2,
        generation_params={"temperature": 0.7},
        overrides=[{"a": 1}, {}],
        group_overrides={"sft": True},
        images=["data:…", None],
        distill_token_ids=[[[1, 2]] * 3] * 2,
        distill_logprobs=[[[-0.5, -0.25]] * 3] * 2,
    )

    raw = body(sent)
    server.post("/scored_data", raw)
    response = server.get("/batch")
    answered = response.content

    assert json.loads(answered)["batch"][0] == sent | {"env_id": None}
    assert raw[:-1] in answered
    latest = json.loads(server.get("/latest_example").content)
    assert latest == sent | {"env_id": None}


def test_numbers_in_quotes_and_whole_floats_are_integers(server: Server) -> None:
    server.register(batch_size=1)

    server.post("/scored_data", {"tokens": [["1", 2.0]], "masks": [[1, 1]], "scores": ["1"]})

    (group,) = server.batch()
    assert group["tokens"] == [[1, 2]]
    assert group["scores"] == [1.0]
    assert isinstance(group["tokens"][0][1], int)
    assert group["advantages"] is None


def test_smaller_groups_wait_until_they_add_up_to_the_group_size(server: Server) -> None:
    server.register()
    server.batch()
    server.register_env(group_size=4)

    def push(sequences: int, mark: int) -> Any:
        return server.post("/scored_data", group(sequences=sequences, mark=mark, env_id=0)).json()

    assert push(3, 1) == {"status": "buffered", "buffer_size": 3}
    assert push(2, 2) == {"status": "buffered", "buffer_size": 5}
    assert server.get("/status").json()["queue_size"] == 0
    assert push(2, 3) == {"status": "buffered", "buffer_size": 3}
    assert server.get("/status").json()["queue_size"] == 2
    assert marks(server.batch()) == [2, 3]
    assert server.post("/scored_data", group(sequences=4, env_id=0)).json() == {
        "status": "received"
    }
    listed = [group(sequences=1, env_id=0), group(sequences=4, env_id=0)]
    assert server.post("/scored_data_list", listed).json() == {
        "status": "received",
        "groups_processed": 2,
        "buffered": 1,
        "last_buffer_size": 0,
    }
    assert miscounts(Run.objects.get().pk) == []


def test_one_odd_group_never_blocks_the_others(server: Server) -> None:
    server.register()
    server.post("/scored_data", group(sequences=3, mark=9))
    for mark in range(4):
        server.post("/scored_data", group(mark=mark))

    assert marks(server.batch()) == [0, 1]
    server.post("/scored_data", group(sequences=1, mark=8))

    assert marks(server.batch()) == [9, 8]
    assert marks(server.batch()) == [2, 3]


def test_environment_status_has_three_request_forms(server: Server) -> None:
    server.register()
    server.batch()
    server.register_env(min_batch_allocation=0.25)
    server.register_env(desired_name="code", weight=3.0)
    server.post("/scored_data", group(env_id=0))
    server.post("/scored_data", group(env_id=1))

    by_body = server.get("/status-env", {"env_id": 0}).json()

    assert by_body == {
        "current_step": 0,
        "queue_size": 2,
        "env_weight": 0.25,
        "self_queue_size": 1,
        "max_group_size": 2,
        "unallocated_fraction": 0.75,
    }
    assert server.get("/status-env?env_id=0").json() == by_body
    assert server.post("/status-env", {"env_id": "0"}).json() == by_body
    assert server.get("/status-env?env_id=9").status_code == 422
    assert server.get("/status-env").status_code == 422


def test_an_environment_can_disconnect(server: Server) -> None:
    server.register()
    server.batch()
    server.register_env()

    assert server.post("/disconnect-env", {"env_id": 0}).json() == {"status": "success"}
    assert server.post("/disconnect-env", {"env_id": 1}).json()["status"] == "failure"
    assert server.post("/disconnect-env", {"env_id": -1}).json()["status"] == "failure"


def test_groups_pushed_before_registration_are_served_after_it(server: Server) -> None:
    assert server.post("/scored_data", group(sequences=4)).status_code == 200
    assert server.get("/status").json() == {"current_step": 0, "queue_size": 0}

    server.register()

    assert len(server.batch()) == 1


def test_a_reset_archives_the_run_and_starts_an_empty_one(server: Server) -> None:
    server.register()
    server.post("/scored_data", group())

    response = server.get("/reset_data")

    assert (response.status_code, response.content) == (200, b"Reset successful")
    assert server.get("/info").json() == {"batch_size": -1, "max_token_len": -1}
    assert TrajectoryGroup.objects.count() == 1
    assert Run.objects.count() == 2


def test_named_runs_are_separate(server: Server) -> None:
    from tests.factories import make_run

    for name in ("alpha", "beta"):
        make_run(name=name, kind="outside")
    alpha, beta = Server("/atropos/alpha"), Server("/atropos/beta")
    alpha.register()
    beta.register(batch_size=2)

    alpha.post("/scored_data", group(mark=1))
    beta.post("/scored_data", group(mark=2))

    assert marks(beta.batch()) == [2]
    assert alpha.batch() is None
    assert Server("/atropos/gamma").get("/info").status_code == 404


def test_a_retried_push_is_stored_once(server: Server) -> None:
    server.register()
    key = {"Idempotency-Key": "k1"}

    first = server.post("/scored_data", group(), **key)
    again = server.post("/scored_data", group(), **key)
    other = server.post("/scored_data", group(mark=7), **key)

    assert first.json() == again.json() == {"status": "received"}
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    assert other.status_code == 422
    assert other.json()["detail"] == [
        {
            "type": "idempotency_conflict",
            "loc": ["header", "Idempotency-Key"],
            "msg": "key 'k1' was already used with another body",
        }
    ]
    assert TrajectoryGroup.objects.count() == 1
    assert IdempotencyRecord.objects.get().receipt == [{}]  # queued; no words of the answer


def test_a_full_queue_answers_with_retry_after(server: Server, settings: Any) -> None:
    settings.ROLLDECK_MAX_QUEUED_GROUPS = 2
    server.register(batch_size=2)
    for _ in range(2):
        assert server.post("/scored_data", group()).status_code == 200

    response = server.post("/scored_data", group())

    assert response.status_code == 503
    assert int(response.headers["Retry-After"]) > 0
    server.batch()
    server.batch()
    assert server.post("/scored_data", group()).status_code == 200


def test_credentials_are_required_without_open_mode(server: Server, settings: Any) -> None:
    from tests.factories import bearer

    settings.ROLLDECK_AUTH = "required"

    assert server.get("/info").status_code == 401
    assert server.get("/info", Authorization="Bearer nonsense").status_code == 401
    assert server.get("/info", **bearer("env")).status_code == 200
    assert server.get("/info", **bearer("metrics")).status_code == 403
    assert server.get("/reset_data", **bearer("env")).status_code == 403
    assert server.get("/reset_data", **bearer("admin")).status_code == 200


def test_open_mode_is_for_this_machine_only(server: Server) -> None:
    assert server.client.get("/info", REMOTE_ADDR="10.0.0.1").status_code == 401
    assert server.get("/info", **{"X-Forwarded-For": "10.0.0.1"}).status_code == 401
    assert server.get("/info", **{"Sec-Fetch-Site": "cross-site"}).status_code == 401
