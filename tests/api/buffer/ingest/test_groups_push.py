"""Groups pushed in the binary form, and what trainers get of them."""

import gzip
import json
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
from django.test import Client

from buffer.batches.admin import group_preview
from buffer.ingest.schemas.pushes_msgpack import decode_push
from buffer.items.models import TrajectoryGroup
from rolldeck import wire
from rolldeck.group_encoding import pack_group
from rolldeck.groups import ATROPOS_FIELDS
from rolldeck.wire import BATCH_TYPE, GROUPS_TYPE, BatchAnswer
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from tests.buffer_factories import REGISTRATION, body, group
from tests.factories import make_run, make_token
from tests.ledgers import miscounts
from tests.live_server import serving
from web import zstd

pytestmark = pytest.mark.django_db(transaction=True)


class Server:
    """One outside run, as its environment and its trainer see it."""

    def __init__(self, **run: Any) -> None:
        self.run: Run = make_run(name="demo", kind="outside", status="running", **run)
        self.http = Client()
        self.env = f"Bearer {make_token('env', run=self.run)[1]}"
        self.trainer = f"Bearer {make_token('trainer', run=self.run)[1]}"
        self.call("/atropos/demo/register", body(REGISTRATION), "application/json", self.trainer)

    def call(self, path: str, data: bytes, kind: str, token: str, **headers: str) -> Any:
        headers |= {"Authorization": token}
        return self.http.post(path, data=data, content_type=kind, headers=headers)

    def push(self, *groups: wire.Group | bytes, **headers: str) -> Any:
        contents = [group if isinstance(group, bytes) else wire.encode(group) for group in groups]
        data = wire.encode(wire.GroupPush(groups=contents))
        return self.call("/api/v1/runs/demo/groups", data, GROUPS_TYPE, self.env, **headers)

    def push_native_json(self, content: Any) -> Any:
        return self.call("/api/v1/runs/demo/groups", body(content), "application/json", self.env)

    def push_json(self, *groups: Any) -> Any:
        path = "/atropos/demo/scored_data_list"
        return self.call(path, body(list(groups)), "application/json", self.env)

    def next_batch(self, accept: str) -> Any:
        path = "/api/v1/runs/demo/batches/next"
        return self.call(path, b"{}", "application/json", self.trainer, Accept=accept)

    def stock_batch(self) -> Any:
        headers = {"Authorization": self.trainer}
        answer: Any = self.http.get("/atropos/demo/batch", headers=headers)
        return json.loads(b"".join(answer))["batch"]


@pytest.fixture
def server() -> Server:
    return Server()


def packed(**fields: Any) -> wire.Group:
    return pack_group(group(**fields))


def with_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return dict.fromkeys(ATROPOS_FIELDS) | fields


def test_a_push_is_stored_byte_for_byte_and_served_untouched(server: Server) -> None:
    contents = [wire.encode(packed(mark=mark)) for mark in (1, 2)]

    answer = server.push(*contents)
    batch = server.next_batch(f"{BATCH_TYPE}; groups=stored")

    assert answer.json() == {
        "received": 2,
        "buffered": 0,
        "dropped": {},
        "admission_remaining": answer.json()["admission_remaining"],
    }
    decoded = msgspec.msgpack.decode(batch.content, type=BatchAnswer)
    assert decoded.codecs == ["msgpack", "msgpack"]
    assert decoded.items == contents
    row = TrajectoryGroup.objects.order_by("id")[0]
    assert (row.codec, row.sequences, row.tokens, row.score_mean) == ("msgpack", 2, 6, 0.5)
    assert miscounts(server.run.pk) == []


def test_a_push_may_be_a_json_list(server: Server) -> None:
    answer = server.push_native_json([group(mark=1), group(mark=2)])

    assert answer.status_code == 200, answer.content
    assert (answer.json()["received"], answer.json()["dropped"]) == (2, {})
    assert server.next_batch("application/json").json()["items"] == [
        with_nulls(group(mark=1)),
        with_nulls(group(mark=2)),
    ]


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ([], "body"),
        ({"tokens": []}, "body"),
        ([group(), {"tokens": [[1]]}], "groups[1].masks"),
        ([group(env_id=7)], "groups[0].env_id"),
    ],
)
def test_an_invalid_json_push_is_refused_with_its_field_and_not_stored(
    server: Server, content: Any, field: str
) -> None:
    answer = server.push_native_json(content)

    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["errors"][0]["field"] == field
    assert not TrajectoryGroup.objects.exists()


def test_a_stock_trainer_gets_the_same_values_in_its_json(server: Server) -> None:
    logprobs = np.array([[-0.1, -0.2, -0.3]] * 2, dtype=np.float32)
    messages = [[{"role": "user", "content": "é", "reward": 1.5}], []]
    sent = group(mark=7, messages=messages, mine={"b": 1, "a": [None]})
    server.push(pack_group(sent | {"inference_logprobs": logprobs}), packed(mark=8))

    batch = server.stock_batch()

    assert batch[0] == with_nulls(sent | {"inference_logprobs": logprobs.tolist()})
    assert batch[1] == with_nulls(group(mark=8))


@pytest.mark.parametrize(
    ("accept", "codecs"),
    [
        (BATCH_TYPE, ["json", "json"]),
        (f"{BATCH_TYPE};groups=stored", ["json", "msgpack"]),
        (f"{BATCH_TYPE}; groups=msgpack, */*;q=0.1", ["msgpack", "msgpack"]),
        (f"{BATCH_TYPE}; groups=nonsense", ["json", "json"]),
    ],
)
def test_a_batch_of_both_codecs_is_served_in_the_requested_format(
    server: Server, accept: str, codecs: list[str]
) -> None:
    server.push_json(group(mark=1, advantages=[[0.5, 1e-7, -2.0]] * 2))
    server.push(packed(mark=2))

    answer = server.next_batch(accept)

    decoded = msgspec.msgpack.decode(answer.content, type=BatchAnswer)
    assert decoded.codecs == codecs
    for codec, content in zip(decoded.codecs, decoded.items, strict=True):
        assert json.loads(content) if codec == "json" else decode_push_item(content)
    assert server.next_batch("application/json").json()["items"] == [
        with_nulls(group(mark=1, advantages=[[0.5, 1e-7, -2.0]] * 2)),
        with_nulls(group(mark=2)),
    ]


def decode_push_item(content: bytes) -> Any:
    return decode_push(wire.encode(wire.GroupPush(groups=[content])))


def test_the_latest_example_and_the_preview_are_json(server: Server) -> None:
    server.push(packed(mark=3))

    latest = server.http.get(
        "/atropos/demo/latest_example", headers={"Authorization": server.trainer}
    )

    assert latest.json() == with_nulls(group(mark=3))
    assert json.loads(group_preview(TrajectoryGroup.objects.get().pk)) == latest.json()


def test_groups_wait_for_the_group_size_of_their_environment(server: Server) -> None:
    # A trainer must have asked for a batch before environments may join.
    server.http.get("/atropos/demo/batch", headers={"Authorization": server.trainer})
    offer = {"max_token_length": 64, "desired_name": "e", "weight": 1.0, "group_size": 4}
    server.call("/atropos/demo/register-env", body(offer), "application/json", server.env)

    first = server.push(packed(env_id=0)).json()
    second = server.push(packed(env_id=0)).json()

    assert (first["received"], first["buffered"]) == (1, 1)
    assert second["buffered"] == 1
    assert [group["env_id"] for group in server.stock_batch()] == [0, 0]


def test_a_repeated_push_is_answered_as_before(server: Server) -> None:
    first = server.push(packed(), **{"Idempotency-Key": "k1"})
    again = server.push(packed(), **{"Idempotency-Key": "k1"})
    other = server.push(packed(mark=2), **{"Idempotency-Key": "k1"})

    assert again.json() == first.json()
    assert again["Idempotent-Replayed"] == "true"
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_conflict")
    assert TrajectoryGroup.objects.count() == 1


def changed(**fields: Any) -> wire.Group:
    return msgspec.structs.replace(packed(), **fields)


def array(values: Any, dtype: str) -> wire.Array:
    return wire.pack_array(np.array(values, dtype=dtype))


def test_json_with_the_msgpack_content_type_is_refused_with_the_json_route(server: Server) -> None:
    content = json.dumps({"groups": [group()]}).encode()

    answer = server.call("/api/v1/runs/demo/groups", content, GROUPS_TYPE, server.env)

    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["field"]) == (422, "body")
    assert GROUPS_TYPE in error["message"]
    assert "JSON to POST /atropos/<run>/scored_data" in error["message"]


@pytest.mark.parametrize(
    ("broken", "field", "message"),
    [
        (b"junk", "groups[1]", "Expected `object`"),
        (changed(tokens=array([1, 2, 3, 4, 5, -6], "int32")), "groups[1].tokens[1][2]", "-6"),
        (changed(tokens=array([0] * 5, "int32")), "groups[1].tokens", "5 entries for 6"),
        (changed(scores=array([0.5], "float64")), "groups[1].scores", "1 entries for 2 sequences"),
        (changed(scores=array([0.5, np.inf], "float64")), "groups[1].scores", "finite"),
        (
            changed(lengths=array([], "int32"), tokens=array([], "int32"), masks=array([], "bool")),
            "groups[1].tokens",
            "empty",
        ),
        (
            changed(own_lengths={"masks": array([2, 4], "int32")}, masks=array([0] * 6, "int32")),
            "groups[1].masks[0]",
            "2 entries for 3 tokens",
        ),
        (changed(json={"messages": b'[[{"role": "x"}]]'}), "groups[1].json.messages[0][0]", "role"),
        (changed(json={"messages": b"{}"}), "groups[1].json.messages", "Expected `array"),
        (changed(json={"x": b"[NaN]"}), "groups[1].json.x", "malformed"),
        (changed(json={"x": b'"\xff"'}), "groups[1].json.x", "utf-8"),
        (changed(json={"x": b"[" * 40 + b"]" * 40}), "groups[1].json.x", "max_json_depth"),
        (changed(env_id=5), "groups[1].env_id", "no environment 5"),
        (changed(schema=9), "groups[1].schema", "version 9"),
    ],
    ids=str,
)
def test_an_invalid_group_is_refused_with_its_position_and_nothing_is_stored(
    server: Server, broken: Any, field: str, message: str
) -> None:
    answer = server.push(packed(), broken)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_data")
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["errors"][0]["field"] == field
    assert message in answer.json()["errors"][0]["message"]
    assert TrajectoryGroup.objects.count() == 0


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"", "body"),
        (b"\xff" * 30, "body"),
        (msgspec.msgpack.encode({"schema": 1, "groups": []}), "groups"),
        (msgspec.msgpack.encode({"schema": 3, "groups": [b"x"]}), "schema"),
        (msgspec.msgpack.encode({"schema": 1, "groups": [b"x"] * 1025}), "groups"),
        (msgspec.msgpack.encode({"schema": 1, "groups": ["text"]}), "groups[0]"),
    ],
)
def test_a_malformed_push_is_refused(server: Server, data: bytes, field: str) -> None:
    answer = server.call("/api/v1/runs/demo/groups", data, GROUPS_TYPE, server.env)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field


def test_a_lenient_run_accepts_and_records_groups_that_only_poison_training() -> None:
    server = Server(lenient=True)

    answer = server.push(changed(tokens=array([1, 2, 3, 4, 5, -6], "int32")))

    assert answer.json()["received"] == 1
    note = RunEvent.objects.get(run=server.run, kind="odd_groups")
    assert "tokens: token_range" in note.message


def test_groups_of_an_unpublished_version_are_dropped_and_counted(server: Server) -> None:
    answer = server.push(changed(policy_step=9), changed(policy_step=0)).json()

    assert (answer["received"], answer["dropped"]) == (1, {"future": 1})
    assert list(TrajectoryGroup.objects.values_list("policy_step", flat=True)) == [9, 0]
    assert miscounts(server.run.pk) == []


def test_a_fleet_run_refuses_groups(server: Server) -> None:
    fleet = make_run(name="fleet", kind="fleet", status="running")
    token = f"Bearer {make_token('env', run=fleet)[1]}"

    answer = server.call("/api/v1/runs/fleet/groups", b"", GROUPS_TYPE, token)

    assert (answer.status_code, answer.json()["code"]) == (409, "run_not_accepting")


def test_numbers_that_do_not_fit_an_array_stay_json(db: None) -> None:
    server = Server(lenient=True)
    server.push_json(group(mark=2**70), group(mark=1))

    answer = server.next_batch(f"{BATCH_TYPE};groups=msgpack")

    decoded = msgspec.msgpack.decode(answer.content, type=BatchAnswer)
    assert decoded.codecs == ["json", "msgpack"]


@pytest.mark.parametrize(("name", "pack"), [("zstd", zstd.compress), ("gzip", gzip.compress)])
def test_a_push_may_be_compressed(
    server: Server, name: str, pack: Callable[[bytes], bytes]
) -> None:
    content = wire.encode(packed())
    data = pack(wire.encode(wire.GroupPush(groups=[content])))
    headers = {
        "Content-Encoding": name,
        "Content-Type": GROUPS_TYPE,
        "Authorization": server.env,
    }

    with serving() as url:
        answer = httpx.post(
            f"{url}/api/v1/runs/demo/groups", content=data, headers=headers, timeout=60
        )

    assert answer.json()["received"] == 1
    server.push(content)
    batch = server.next_batch(f"{BATCH_TYPE};groups=stored")
    assert msgspec.msgpack.decode(batch.content, type=BatchAnswer).items == [content] * 2
