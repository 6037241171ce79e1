import json
from typing import Any

import pytest
from django.test import Client

from buffer import selectors
from buffer.models import Batch, TrajectoryGroup
from runs.models import Run, RunEvent
from tests.buffer_factories import ENVIRONMENT, REGISTRATION, body, group

pytestmark = pytest.mark.django_db(transaction=True)


class Server:
    """What a stock client sees, below one base URL."""

    def __init__(self, base: str = "") -> None:
        self.client = Client()
        self.base = base

    def get(self, path: str, content: Any = None, **headers: str) -> Any:
        extra = {} if content is None else {"data": body(content)}
        return self.client.generic(
            "GET", self.base + path, content_type="application/json", headers=headers, **extra
        )

    def post(self, path: str, content: Any, **headers: str) -> Any:
        data = content if isinstance(content, bytes) else body(content)
        return self.client.post(
            self.base + path, data=data, content_type="application/json", headers=headers
        )

    def batch(self, **headers: str) -> Any:
        response = self.get("/batch", **headers)
        assert response.status_code == 200
        return json.loads(response.content)["batch"]

    def register(self, **changed: Any) -> Any:
        return self.post("/register", REGISTRATION | changed).json()

    def register_env(self, **changed: Any) -> Any:
        return self.post("/register-env", ENVIRONMENT | changed).json()


@pytest.fixture
def server() -> Server:
    return Server()


def marks(batch: list[dict[str, Any]]) -> list[int]:
    return [one["tokens"][0][0] for one in batch]


def test_the_root_greets_clients(server: Server) -> None:
    assert server.get("/").json() == {"message": "AtroposLib API"}


def test_before_registration_everything_says_so(server: Server) -> None:
    assert server.get("/wandb_info").json() == {"group": None, "project": None}
    assert server.get("/info").json() == {"batch_size": -1, "max_token_len": -1}
    assert server.get("/status").json() == {"current_step": 0, "queue_size": 0}
    assert server.get("/batch").json() == {
        "status": "error",
        "message": "Trainer not registered. Call /register first.",
        "batch": [],
    }
    assert server.get("/latest_example").json()["tokens"] == []


def test_groups_come_back_oldest_first_in_exact_batches(server: Server) -> None:
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


def test_asking_again_confirms_what_was_delivered(server: Server) -> None:
    server.register()
    server.post("/scored_data_list", [group(mark=mark) for mark in range(2)])

    server.batch()
    assert Batch.objects.get().state == "leased"
    server.batch()

    assert Batch.objects.get().state == "confirmed"
    run = Run.objects.get()
    ledger = selectors.ledger_part(run.pk)["groups"]
    assert (ledger["accepted"], ledger["served"], ledger["balanced"]) == (2, 2, True)
    assert selectors.miscounts(run.pk) == []


def test_a_cut_answer_comes_again_with_the_same_bytes(server: Server) -> None:
    server.register()
    server.post("/scored_data_list", [group(mark=mark) for mark in range(4)])
    response = server.get("/batch")
    first = response.content
    # What noticing the hang-up writes.
    Batch.objects.update(delivered_at=None, sending_since=None, sender="")

    again = server.get("/batch")

    assert again.content == first
    assert server.get("/status").json()["current_step"] == 1


def test_a_restarted_trainer_gets_its_unconfirmed_batch_again(server: Server) -> None:
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


def test_everything_comes_back_as_it_was_sent(server: Server) -> None:
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

    (one,) = server.batch()
    assert one["tokens"] == [[1, 2]]
    assert one["scores"] == [1.0]
    assert isinstance(one["tokens"][0][1], int)
    assert one["advantages"] is None


BROKEN: dict[str, tuple[Any, list[Any]]] = {
    "no tokens": ({"masks": [[1]], "scores": [1.0]}, ["body", "tokens"]),
    "a word": (group() | {"tokens": [["a", 1, 1], [1, 1, 1]]}, ["body", "tokens", 0, 0]),
    "fewer masks": (group() | {"masks": [[1, 1, 1]]}, ["body", "masks"]),
    "fewer scores": (group() | {"scores": [1.0]}, ["body", "scores"]),
    "a ragged mask": (group() | {"masks": [[1, 1, 1], [1]]}, ["body", "masks", 1]),
    "ragged logprobs": (group(ref_logprobs=[[0.0], [0.0] * 3]), ["body", "ref_logprobs", 0]),
    "infinity": (b'{"tokens":[[1]],"masks":[[1]],"scores":[Infinity]}', ["body", "scores", 0]),
    "nan": (b'{"tokens":[[1]],"masks":[[1]],"scores":[NaN]}', ["body", "scores", 0]),
    "nan in quotes": (b'{"tokens":[[1]],"masks":[[1]],"scores":["nan"]}', ["body", "scores"]),
    "a huge number": (b'{"tokens":[[1]],"masks":[[1]],"scores":[1e999]}', ["body", "scores", 0]),
    "nothing in it": ({"tokens": [], "masks": [], "scores": []}, ["body", "tokens"]),
    "a negative token": (group() | {"tokens": [[-1, 1, 1], [1, 1, 1]]}, ["body", "tokens", 0, 0]),
    "a huge token": (group() | {"tokens": [[1, 2**31, 1], [1, 1, 1]]}, ["body", "tokens", 0, 1]),
    "no role": (group(messages=[[{"content": "x"}]]), ["body", "messages", 0, 0]),
    "an unknown environment": (group(env_id=5), ["body", "env_id"]),
    "a negative environment": (group(env_id=-1), ["body", "env_id"]),
    "no JSON": (b"{", ["body"]),
    "no object": (b"[1]", ["body"]),
    "nothing": (b"", ["body"]),
    "not UTF-8": (b'{"tokens":[[1]],"masks":[[1]],"scores":[1.0],"x":"\xff"}', ["body"]),
    "a deep hole": (b'{"tokens":' + b"[" * 100_000, ["body"]),
    "too many sequences": (group(sequences=1025), ["body", "tokens"]),
}


@pytest.mark.parametrize(("content", "loc"), BROKEN.values(), ids=BROKEN.keys())
def test_what_would_poison_training_is_refused(
    server: Server, content: Any, loc: list[Any]
) -> None:
    server.register()

    response = server.post("/scored_data", content)

    assert response.status_code == 422
    problem = response.json()["detail"][0]
    assert problem["loc"] == loc
    assert problem["msg"]
    assert problem["type"]
    assert TrajectoryGroup.objects.count() == 0


def test_one_invalid_group_rejects_the_list(server: Server) -> None:
    server.register()

    response = server.post("/scored_data_list", [group(), group() | {"scores": ["x", 1.0]}])

    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["body", 1, "scores", 0]
    assert TrajectoryGroup.objects.count() == 0


def test_odd_lengths_of_advantages_are_noted_once(server: Server) -> None:
    server.register()

    for _ in range(3):
        odd = group(advantages=[[1.0]], messages=[[{"role": "u", "content": "c"}]])
        assert server.post("/scored_data", odd).status_code == 200

    noted = RunEvent.objects.filter(kind="odd_groups").values_list("message", flat=True)
    assert len(noted) == 3  # three oddities, each noted once


def test_a_lenient_run_notes_what_others_refuse(server: Server) -> None:
    server.register()
    Run.objects.update(lenient=True)

    assert server.post("/scored_data", group() | {"masks": [[1]]}).status_code == 200

    assert RunEvent.objects.filter(kind="odd_groups").exists()


def test_a_lenient_run_notes_an_empty_group_and_keeps_nothing_of_it(server: Server) -> None:
    server.register()
    Run.objects.update(lenient=True)
    empty = {"tokens": [], "masks": [], "scores": []}

    answer = server.post("/scored_data_list", [group(), empty, group(mark=2)])

    assert answer.json() == {"status": "received", "groups_processed": 3}
    assert TrajectoryGroup.objects.count() == 2
    assert RunEvent.objects.filter(message__contains="tokens: too_short").exists()


@pytest.mark.parametrize(
    "content",
    [b'{"tokens":[[1]],"masks":[[1]],"scores":[NaN]}', body(group(sequences=1025))],
    ids=["no JSON to anybody but Python", "over a limit"],
)
def test_not_even_a_lenient_run_takes_what_would_break_readers_or_memory(
    server: Server, content: bytes
) -> None:
    server.register()
    Run.objects.update(lenient=True)

    assert server.post("/scored_data", content).status_code == 422
    assert TrajectoryGroup.objects.count() == 0


LIMITED: dict[str, tuple[str, int, Any, list[Any]]] = {
    "groups": ("groups_per_push", 2, [group()] * 3, []),
    "sequences": ("sequences_per_group", 1, [group()], [0, "tokens"]),
    "tokens of a sequence": ("tokens_per_sequence", 2, [group()], [0, "tokens", 0]),
    "tokens of a group": ("tokens_per_group", 5, [group()], [0, "tokens"]),
    "depth": ("json_depth", 4, [group(overrides=[{"a": [[1]]}, {}])], [0, "overrides"]),
    "values of a group": ("values_per_group", 10, [group()], [0]),
    "values of a field": ("json_values", 9, [group(images=list(range(10)))], [0, "images"]),
}


@pytest.mark.parametrize(("name", "bound", "content", "loc"), LIMITED.values(), ids=LIMITED.keys())
def test_a_refusal_names_the_limit_and_the_place(
    server: Server, settings: Any, name: str, bound: int, content: Any, loc: list[Any]
) -> None:
    server.register()
    setattr(settings, f"ROLLDECK_MAX_{name.upper()}", bound)

    response = server.post("/scored_data_list", content)

    assert response.status_code == 422
    problem = response.json()["detail"][0]
    assert problem["loc"] == ["body", *loc]
    assert f"(max_{name})" in problem["msg"]
    assert TrajectoryGroup.objects.count() == 0


def test_smaller_groups_wait_until_they_complete_one_another(server: Server) -> None:
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
    assert selectors.miscounts(Run.objects.get().pk) == []


def test_one_odd_group_never_blocks_the_others(server: Server) -> None:
    server.register()
    server.post("/scored_data", group(sequences=3, mark=9))
    for mark in range(4):
        server.post("/scored_data", group(mark=mark))

    assert marks(server.batch()) == [0, 1]
    server.post("/scored_data", group(sequences=1, mark=8))

    assert marks(server.batch()) == [9, 8]
    assert marks(server.batch()) == [2, 3]


def test_an_environment_asks_for_its_status_in_three_ways(server: Server) -> None:
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


def test_environments_leave(server: Server) -> None:
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


def test_reset_archives_the_run_and_begins_a_fresh_one(server: Server) -> None:
    server.register()
    server.post("/scored_data", group())

    response = server.get("/reset_data")

    assert (response.status_code, response.content) == (200, b"Reset successful")
    assert server.get("/info").json() == {"batch_size": -1, "max_token_len": -1}
    assert TrajectoryGroup.objects.count() == 1
    assert Run.objects.count() == 2


def test_named_runs_do_not_see_each_other(server: Server) -> None:
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
    assert TrajectoryGroup.objects.count() == 1


def test_a_full_queue_says_when_to_come_back(server: Server, settings: Any) -> None:
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


@pytest.mark.parametrize("changed", [{"batch_size": 0}, {"batch_size": "x"}, {"num_steps": None}])
def test_an_impossible_registration_is_refused(server: Server, changed: dict[str, Any]) -> None:
    response = server.post("/register", REGISTRATION | changed)

    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["body", next(iter(changed))]
    assert not Run.objects.filter(registered_at__isnull=False).exists()


def test_without_open_mode_credentials_are_needed(server: Server, settings: Any) -> None:
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
