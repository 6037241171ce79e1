"""A language run: this platform launches its fleet, and its items are groups."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from rolldeck import wire
from rolldeck.group_encoding import pack_group
from rolldeck.wire import FRAGMENTS_TYPE, GROUPS_TYPE
from rollouts.control.queries.fleets import fleet_view
from runs.config.rules.servers import OfferedServer
from runs.lifecycle.models import Run
from runs.search.queries.lists import active_run_rows
from tests.buffer_factories import REGISTRATION, group
from tests.factories import bearer, make_run

pytestmark = pytest.mark.django_db(transaction=True)

LESSONS: dict[str, Any] = {"reverse-2": {"spec": "task:reverse", "kwargs": {"length": 2}}}
CONFIG: dict[str, Any] = {
    "language": {
        "lessons": LESSONS,
        "model": {"max_position_embeddings": 64},
        "group_size": 2,
    },
    "buffer": {"batch_size": 4, "max_staleness": 2},
}


class Server:
    """A language run whose stock trainer has registered, at version 0 of epoch 1."""

    def __init__(self) -> None:
        self.run = make_run(name="words", config=CONFIG)
        self.trainer = bearer("trainer", "read", run=self.run)
        self.worker = bearer("worker", run=self.run)
        registration = REGISTRATION | {"batch_size": 99, "max_token_len": 1}
        self.registered = self.post("/atropos/words/register", registration, self.trainer)
        self.enter(epoch=1)

    def enter(self, *, epoch: int) -> None:
        Run.objects.filter(pk=self.run.pk).update(epoch=epoch, policy_step=0)

    def post(self, path: str, content: Any, headers: dict[str, str]) -> Any:
        return APIClient().post(path, content, format="json", headers=headers)

    def push(self, *groups: dict[str, Any]) -> Any:
        rows = [group | {"scores": [0.0, 1.0], "epoch": 1, "policy_step": 0} for group in groups]
        contents = [wire.encode(pack_group(row, logprob_dtype="float32")) for row in rows]
        content = wire.encode(wire.GroupPush(groups=contents))
        path = "/api/v1/runs/words/groups"
        return APIClient().generic(
            "POST", path, content, content_type=GROUPS_TYPE, headers=self.worker
        )

    def next_batch(self) -> Any:
        return self.post("/api/v1/runs/words/batches/next", {}, self.trainer)


@pytest.fixture
def server() -> Server:
    return Server()


def test_a_run_with_lessons_is_a_language_run(server: Server) -> None:
    run = Run.objects.get(pk=server.run.pk)

    assert (run.kind, run.has_fleet, run.takes_groups) == ("language", True, True)
    assert run.drop_zero_variance
    assert fleet_view(run.pk).launches_fleets


def test_a_stock_trainer_can_register_unchanged(server: Server) -> None:
    after = Run.objects.get(pk=server.run.pk)

    assert server.registered.status_code == 200
    assert (after.batch_size, after.max_token_len) == (4, 64)


def test_groups_of_a_worker_are_served_to_a_trainer(server: Server) -> None:
    pushed = server.push(group(), group(mark=2))

    assert pushed.status_code == 200, pushed.content
    assert pushed.json()["received"] == 2
    assert server.next_batch().status_code == 200


def test_queued_groups_of_another_epoch_are_dropped_when_a_trainer_restarts(
    server: Server,
) -> None:
    server.push(group(), group(mark=2))
    server.enter(epoch=2)

    assert server.next_batch().status_code == 204
    ledger = APIClient().get("/api/v1/runs/words/ledger", headers=server.trainer).json()
    assert ledger["groups"]["dropped"] == {"stale_epoch": 2}


def test_a_language_run_refuses_fragments(server: Server) -> None:
    path, content = "/api/v1/runs/words/fragments", wire.encode(wire.FragmentPush(fragments=[]))
    answer = APIClient().generic(
        "POST", path, content, content_type=FRAGMENTS_TYPE, headers=server.worker
    )

    assert answer.status_code in {409, 422}


def test_the_list_of_runs_names_the_lessons(server: Server) -> None:
    (row,) = active_run_rows()

    assert (row.kind, row.environment) == ("language", "reverse-2")


def test_a_run_may_use_a_configured_inference_server(settings: Any) -> None:
    operator = APIClient(headers=bearer("admin"))
    config = CONFIG | {"language": {**CONFIG["language"], "inference": "big"}}
    body = {"name": "beside", "config": config}

    refused = operator.post("/api/v1/runs", body, format="json")
    settings.ROLLDECK_INFERENCE_SERVERS = {"big": OfferedServer("vllm", 8001)}
    taken = operator.post("/api/v1/runs", body, format="json")

    assert refused.status_code == 400
    assert [error["field"] for error in refused.json()["errors"]] == ["config.language.inference"]
    assert (taken.status_code, taken.json()["config"]["language"]["inference"]) == (201, "big")
    assert taken.json()["inference_server"] == {"kind": "vllm", "port": 8001}
    settings.ROLLDECK_INFERENCE_SERVERS = {}
    assert operator.get("/api/v1/runs/beside").json()["inference_server"] is None


def test_a_run_with_top_p_cannot_use_vllm(settings: Any) -> None:
    operator = APIClient(headers=bearer("admin"))
    settings.ROLLDECK_INFERENCE_SERVERS = {
        "big": OfferedServer("vllm", 8001),
        "other": OfferedServer("sglang", 8002),
    }
    lesson = {"spec": "task:reverse", "sampling": {"top_p": 0.5}}
    language = {**CONFIG["language"], "lessons": {"cut": lesson}}

    def post(server: str) -> Any:
        config = CONFIG | {"language": language | {"inference": server}}
        body = {"name": f"beside-{server}", "config": config}
        return operator.post("/api/v1/runs", body, format="json")

    refused = post("big")
    assert refused.status_code == 400
    [error] = refused.json()["errors"]
    assert error["field"] == "config.language.lessons.cut.sampling.top_p"
    assert "log probabilities" in error["message"]
    assert post("other").status_code == 201


@pytest.mark.parametrize(
    ("model", "server", "field"),
    [
        ({"adapter": {"rank": 8}}, "", "model.adapter.rank"),
        ({"adapter": {"rank": 8}, "checkpoint": "small"}, "ours", "model.adapter.rank"),
        ({"adapter": {"rank": 8}}, "big", "model.checkpoint"),
        ({"adapter": {"rank": -1}}, "big", "model.adapter.rank"),
        ({"adapter": {"rank": 8, "target_modules": []}}, "big", "model.adapter.target_modules"),
    ],
)
def test_an_adapter_that_no_server_can_load_is_refused(
    model: dict[str, Any], server: str, field: str, settings: Any
) -> None:
    settings.ROLLDECK_INFERENCE_SERVERS = {
        "big": OfferedServer("vllm", 8001),
        "ours": OfferedServer("rolldeck", 8002),
    }
    config = CONFIG | {"language": {**CONFIG["language"], "inference": server, "model": model}}

    refused = APIClient(headers=bearer("admin")).post(
        "/api/v1/runs", {"name": "adapted", "config": config}, format="json"
    )

    assert refused.status_code == 400
    assert f"config.language.{field}" in [error["field"] for error in refused.json()["errors"]]


def test_a_run_may_train_an_adapter_of_its_checkpoint(settings: Any) -> None:
    settings.ROLLDECK_INFERENCE_SERVERS = {"big": OfferedServer("sglang", 8001)}
    model = {"checkpoint": "small", "adapter": {"rank": 8}}
    config = CONFIG | {"language": {**CONFIG["language"], "inference": "big", "model": model}}

    answer = APIClient(headers=bearer("admin")).post(
        "/api/v1/runs", {"name": "adapted", "config": config}, format="json"
    )

    assert answer.status_code == 201
    adapter = answer.json()["config"]["language"]["model"]["adapter"]
    assert (adapter["rank"], adapter["alpha"]) == (8, 16.0)
    assert "q_proj" in adapter["target_modules"]
