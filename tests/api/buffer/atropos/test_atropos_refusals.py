"""Refusals of the Atropos routes, and groups that only lenient runs accept."""

from typing import Any

import pytest

from buffer.items.models import TrajectoryGroup
from rolldeck.group_encoding import pack_group
from rolldeck.wire import GROUPS_TYPE, GroupPush, encode
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from tests.api.buffer.stock_server import Server
from tests.buffer_factories import REGISTRATION, body, group
from tests.factories import make_token

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server() -> Server:
    return Server()


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
def test_groups_that_would_poison_training_are_refused(
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


def test_wrong_lengths_of_advantages_are_recorded_once(server: Server) -> None:
    server.register()

    for _ in range(3):
        odd = group(advantages=[[1.0]], messages=[[{"role": "u", "content": "c"}]])
        assert server.post("/scored_data", odd).status_code == 200

    noted = RunEvent.objects.filter(kind="odd_groups").values_list("message", flat=True)
    assert len(noted) == 3  # three oddities, each noted once


TALK = [{"role": "user", "content": "c"}]
ODD: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, []),
    "advantages of each sequence": ({"advantages": [[0.5], [-0.5]]}, []),
    "fewer advantages": ({"advantages": [[0.5] * 3]}, ["advantages has 1 entries for 2 sequences"]),
    "ragged advantages": (
        {"advantages": [[0.5] * 3, [0.5] * 2]},
        ["advantages has rows whose lengths differ from those of tokens"],
    ),
    "fewer overrides": ({"overrides": [{}]}, ["overrides has 1 entries for 2 sequences"]),
    "more overrides": ({"overrides": [{}] * 3}, ["overrides has 3 entries for 2 sequences"]),
    "fewer images": ({"images": ["a"]}, ["images has 1 entries for 2 sequences"]),
    "an image of the group": ({"images": "a"}, []),
    "fewer messages": ({"messages": [TALK]}, ["messages has 1 entries for 2 sequences"]),
    "a teacher": ({"distill_token_ids": [[[1]] * 3] * 2}, []),
    "a teacher of one": (
        {"distill_token_ids": [[[1]] * 3]},
        ["distill_token_ids has 1 entries for 2 sequences"],
    ),
    "a shorter teacher": (
        {"distill_logprobs": [[[-0.5]] * 2] * 2},
        ["distill_logprobs has rows whose lengths differ from those of tokens"],
    ),
    "masks of flags": (
        {"masks": [[0, 0, 1]] * 2},
        ["masks has numbers that are neither -100 nor the token"],
    ),
    "another label": (
        {"masks": [[-100, 1, 7]] * 2},
        ["masks has numbers that are neither -100 nor the token"],
    ),
    "an untrained sequence": (
        {"masks": [[-100, 1, 2], [-100] * 3]},
        ["masks has rows without a trained token"],
    ),
    "an empty sequence": ({"tokens": [[1, 1, 2], []], "masks": [[-100, 1, 2], []]}, []),
}


@pytest.mark.parametrize("codec", ["json", "msgpack"])
@pytest.mark.parametrize(("fields", "notes"), ODD.values(), ids=ODD.keys())
def test_anomalies_are_recorded_with_their_field_and_environment(
    server: Server, fields: dict[str, Any], notes: list[str], codec: str
) -> None:
    server.register()
    server.batch()
    name = server.register_env(desired_name="math")["wandb_name"]
    pushed = group(env_id=0) | fields

    if codec == "json":
        answer = server.post("/scored_data", pushed)
    else:
        data = encode(GroupPush(groups=[encode(pack_group(pushed))]))
        run = Run.objects.get()
        answer = server.client.post(
            f"/api/v1/runs/{run.name}/groups",
            data=data,
            content_type=GROUPS_TYPE,
            headers={"Authorization": f"Bearer {make_token('env', run=run)[1]}"},
        )

    assert answer.status_code == 200
    events = RunEvent.objects.filter(kind="odd_groups").order_by("id")
    assert [event.message for event in events] == [
        f"accepted groups of {name} with an anomaly: {note}" for note in notes
    ]
    assert all(event.details == {"env_id": 0, "environment": name} for event in events)


def test_anomalies_of_each_environment_are_recorded(server: Server) -> None:
    server.register()
    server.batch()
    names = [server.register_env(desired_name=name)["wandb_name"] for name in ("math", "code")]

    for env_id in (0, 1, 0, 1):
        assert server.post("/scored_data", group(env_id=env_id, overrides=[{}])).status_code == 200

    noted = RunEvent.objects.filter(kind="odd_groups").values_list("details", flat=True)
    assert sorted(details["environment"] for details in noted) == sorted(names)


def test_a_lenient_run_records_irregularities_that_strict_runs_refuse(server: Server) -> None:
    server.register()
    Run.objects.update(lenient=True)

    assert server.post("/scored_data", group() | {"masks": [[1]]}).status_code == 200

    assert RunEvent.objects.filter(kind="odd_groups").exists()


def test_a_lenient_run_records_an_empty_group_and_stores_none_of_it(server: Server) -> None:
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
    ids=["JSON only for Python", "over a limit"],
)
def test_a_lenient_run_refuses_groups_that_exceed_memory_or_break_readers(
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
def test_a_refusal_names_the_limit_and_the_position(
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


@pytest.mark.parametrize("changed", [{"batch_size": 0}, {"batch_size": "x"}, {"num_steps": None}])
def test_an_impossible_registration_is_refused(server: Server, changed: dict[str, Any]) -> None:
    response = server.post("/register", REGISTRATION | changed)

    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["body", next(iter(changed))]
    assert not Run.objects.filter(registered_at__isnull=False).exists()
