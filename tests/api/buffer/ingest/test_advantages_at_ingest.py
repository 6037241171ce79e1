"""A run may add advantages to incoming groups, and drop groups without signal."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from django.test import Client

from buffer.items.models import TrajectoryGroup
from buffer.items.queries import ledger_part
from buffer.items.schemas import KindLedger
from buffer.payloads.models import Payload
from rolldeck import wire
from rolldeck.group_encoding import pack_group
from rolldeck.groups import read
from rolldeck.wire import BATCH_TYPE, GROUPS_TYPE, BatchAnswer
from runs.lifecycle.models import Run
from tests.buffer_factories import ENVIRONMENT, REGISTRATION, body, group
from tests.factories import make_run, make_token, make_user
from tests.ledgers import miscounts

pytestmark = pytest.mark.django_db(transaction=True)

LEAVE_ONE_OUT = [1.5, -1.5]  # of the scores 1.0 and -0.5
# One of each further field that a group may carry.
FIELDS: dict[str, Any] = {
    "scores": [1.0, -0.5],
    "inference_logprobs": [[-0.1, -1e-7, -2.0]] * 2,
    "messages": [[{"role": "user", "content": 'é "advantages": null'}], []],
    "mine": {"b": 1.50, "advantages": None},
}


class Server:
    """One outside run, as its environment, its trainer and its operator see it."""

    def __init__(self) -> None:
        self.run: Run = make_run(name="demo", kind="outside", status="running")
        self.http = Client()
        self.env = f"Bearer {make_token('env', run=self.run)[1]}"
        self.trainer = f"Bearer {make_token('trainer', run=self.run)[1]}"
        self.operator = Client()
        self.operator.force_login(make_user(username="olga", role="operator"))
        self.call("/atropos/demo/register", body(REGISTRATION), self.trainer)

    def call(self, path: str, data: bytes, token: str, kind: str = "application/json") -> Any:
        return self.http.post(path, data=data, content_type=kind, headers={"Authorization": token})

    def change(self, **settings: Any) -> Any:
        answer = self.operator.patch(
            "/api/v1/runs/demo", data=body(settings), content_type="application/json"
        )
        self.run.refresh_from_db()
        return answer

    def push_json(self, *contents: bytes | dict[str, Any]) -> Any:
        texts = [content if isinstance(content, bytes) else body(content) for content in contents]
        path = "/atropos/demo/scored_data_list"
        return self.call(path, b"[" + b",".join(texts) + b"]", self.env).json()

    def push(self, *contents: bytes) -> Any:
        data = wire.encode(wire.GroupPush(groups=list(contents)))
        return self.call("/api/v1/runs/demo/groups", data, self.env, GROUPS_TYPE).json()

    def push_as(self, codec: str, *groups: dict[str, Any]) -> Any:
        if codec == "json":
            return self.push_json(*groups)
        return self.push(*[wire.encode(pack_group(group)) for group in groups])

    def stored(self) -> list[bytes]:
        """Lease the next batch as it is kept."""
        answer = self.http.post(
            "/api/v1/runs/demo/batches/next",
            data=b"{}",
            content_type="application/json",
            headers={"Authorization": self.trainer, "Accept": f"{BATCH_TYPE}; groups=stored"},
        )
        assert answer.status_code == 200
        return msgspec.msgpack.decode(answer.content, type=BatchAnswer).items

    def ledger(self) -> KindLedger:
        assert miscounts(self.run.pk) == []
        return ledger_part(self.run.pk).groups


@pytest.fixture
def server() -> Server:
    return Server()


def advantages_in(content: bytes, codec: str) -> list[list[float]]:
    rows = read(content, codec).rows["advantages"]
    return [row.tolist() for row in np.split(rows.values, np.cumsum(rows.lengths)[:-1])]


def test_both_settings_are_off_by_default(server: Server) -> None:
    sent = body(group(scores=[0.5, 0.5]))

    answer = server.push_json(sent, group(scores=[0.0, 1.0]))
    shown = server.operator.get("/api/v1/runs/demo").json()

    assert "dropped" not in answer
    assert (shown["advantages"], shown["drop_zero_variance"]) == ("", False)
    assert all(json.loads(content)["advantages"] is None for content in server.stored())


def test_an_operator_changes_them_and_the_run_shows_them(server: Server) -> None:
    answer = server.change(advantages="grpo", drop_zero_variance=True)

    assert (answer.status_code, answer.json()["advantages"]) == (200, "grpo")
    assert answer.json()["drop_zero_variance"] is True
    assert server.change(advantages="").json()["advantages"] == ""


@pytest.mark.parametrize(
    ("wrong", "field"),
    [({"advantages": "gae"}, "advantages"), ({"drop_zero_variance": "no"}, "drop_zero_variance")],
)
def test_an_unknown_rule_is_refused_with_its_field(
    server: Server, wrong: dict[str, Any], field: str
) -> None:
    answer = server.change(**wrong)

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == field
    assert server.run.advantages == ""


def test_json_groups_get_one_advantage_per_token_after_the_original_bytes(server: Server) -> None:
    server.change(advantages="rloo")
    sent = body(group(**FIELDS))

    server.push_json(sent, sent)

    for content in server.stored():
        assert content.startswith(sent[:-1])
        content_json = json.loads(content)
        assert content_json["advantages"] == [[value] * 3 for value in LEAVE_ONE_OUT]
        assert {name: content_json[name] for name in json.loads(sent)} == json.loads(sent)
        assert content.count(b'"ref_logprobs": null') == 1


@pytest.mark.parametrize("extra", [{}, {"distill_token_ids": [[[1], [2], [3]]] * 2}])
def test_a_null_is_replaced_and_all_other_values_keep_their_bytes(
    server: Server, extra: dict[str, Any]
) -> None:
    server.change(advantages="rloo")
    sent = body(group(advantages=None, **FIELDS, **extra))

    server.push_json(sent, sent)

    for content in server.stored():
        before = msgspec.json.decode(sent, type=dict[str, msgspec.Raw])
        after = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        rows = msgspec.json.decode(after["advantages"])
        assert rows == [[value] * 3 for value in LEAVE_ONE_OUT]
        assert content.count(b'"advantages":') == sent.count(b'"advantages":')
        for name in before.keys() - {"advantages"}:
            assert bytes(after[name]) == bytes(before[name])


def test_msgpack_groups_get_one_advantage_per_sequence(server: Server) -> None:
    server.change(advantages="rloo")
    sent = wire.encode(pack_group(group(**FIELDS)))
    left_out = msgspec.msgpack.decode(sent)
    del left_out["advantages"]

    server.push(sent, msgspec.msgpack.encode(left_out))

    for content in server.stored():
        before = msgspec.msgpack.decode(sent, type=dict[str, msgspec.Raw])
        after = msgspec.msgpack.decode(content, type=dict[str, msgspec.Raw])
        added = msgspec.msgpack.decode(after.pop("advantages"), type=wire.Array)
        assert wire.unpack_array(added).tolist() == LEAVE_ONE_OUT
        assert (added.dtype, added.shape) == ("float64", (2,))
        assert after.keys() == before.keys() - {"advantages"}
        assert all(bytes(after[name]) == bytes(before[name]) for name in after)


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_grpo_divides_by_the_deviation(server: Server, codec: str) -> None:
    server.change(advantages="grpo")

    server.push_as(codec, *[group(scores=[3.0, 1.0])] * 2)

    for content in server.stored():
        firsts = [row[0] for row in advantages_in(content, codec)]
        assert firsts == pytest.approx([1.0, -1.0], rel=2e-6)
        assert firsts[0] < 1.0


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_a_group_with_advantages_keeps_them(server: Server, codec: str) -> None:
    server.change(advantages="rloo")
    own = [[0.25, 0.5, 1.0], [-1.0, 0.0, 2.0]]

    server.push_as(codec, *[group(advantages=own, scores=[1.0, 0.0])] * 2)

    assert [advantages_in(content, codec) for content in server.stored()] == [own, own]


def test_rows_of_any_length_are_filled(server: Server) -> None:
    server.change(advantages="rloo")
    rows = [[1, 2, 3, 4], [5], [6, 7], [8, 9]]
    scores = [1.0, 0.0, 0.0, 0.0]

    server.push_json({"tokens": rows, "masks": rows, "scores": scores})

    (content,) = server.stored()
    advantages = json.loads(content)["advantages"]
    assert [len(row) for row in advantages] == [4, 1, 2, 2]
    assert [row[0] for row in advantages] == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])


ZERO = {"set_advantage_to_zero": True}


@pytest.mark.parametrize("codec", ["json", "msgpack"])
@pytest.mark.parametrize(
    ("rule", "rows", "scores", "fields", "expected"),
    [
        ("grpo", [2, 2], [1, 0], {"overrides": [{}, ZERO]}, [1, 0]),
        ("rloo", [2, 2], [1, 0], {"overrides": [{}, ZERO]}, [1, 0]),
        ("rloo", [2, 2, 1], [1, 0, 2], {"overrides": [ZERO, {}, {}]}, [0, -1.5, 1.5]),
        ("rloo", [2, 2], [1, 0], {"overrides": [ZERO | {"set_advantage_to_zero": 0}, {}]}, [1, -1]),
        ("rloo", [2, 2], [1, 0], {"overrides": [ZERO]}, [1, -1]),
        ("rloo", [2, 2], [1, 0], {"group_overrides": ZERO}, [1, -1]),
        ("rloo", [2, 0, 2], [1, 9, 0], {}, [1, 0, -1]),
        ("grpo", [2, 0], [0.75, 9], {}, [0.75, 0]),
        ("grpo", [3], [0.75], {}, [0.75]),
        ("rloo", [3], [-2], {}, [-2]),
        ("grpo", [3], [0.5], {"overrides": [ZERO]}, [0]),
    ],
)
def test_single_sequences_have_the_advantage_of_atropos_trainer(
    server: Server,
    codec: str,
    rule: str,
    rows: list[int],
    scores: list[float],
    fields: dict[str, Any],
    expected: list[float],
) -> None:
    server.change(advantages=rule, batch_size=len(rows))
    tokens = [list(range(1, length + 1)) for length in rows]

    server.push_as(
        codec, {"tokens": tokens, "masks": tokens, "scores": [float(x) for x in scores], **fields}
    )

    (content,) = server.stored()
    padded = read(content, codec).rows["advantages"]
    found = np.split(padded.values, np.cumsum(padded.lengths)[:-1])
    if codec == "json":  # one for each token
        assert [len(row) for row in found] == rows
        expected = [value for value, length in zip(expected, rows, strict=True) if length]
    assert [row[0] for row in found if len(row)] == pytest.approx(expected, rel=1e-5)


def test_a_lenient_run_adds_nothing_where_scores_are_missing(server: Server) -> None:
    server.change(advantages="rloo", drop_zero_variance=True, lenient=True)

    answer = server.push_json(group(scores=[1.0]), group(scores=[]))

    assert "dropped" not in answer
    assert all(json.loads(content)["advantages"] is None for content in server.stored())


def test_advantages_that_json_cannot_represent_are_left_out(server: Server) -> None:
    server.change(advantages="rloo")

    server.push_json(*[group(scores=[1.7e308, -1.7e308])] * 2)

    assert all(json.loads(content)["advantages"] is None for content in server.stored())


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_groups_without_variance_are_dropped_reported_and_counted(
    server: Server, codec: str
) -> None:
    server.change(drop_zero_variance=True, advantages="rloo")

    answer = server.push_as(
        codec, group(scores=[0.1, 0.1]), group(scores=[0.1, 0.2]), group(scores=[1.0, 1.0])
    )

    assert answer["dropped"] == {"zero_variance": 2}
    assert (server.ledger().dropped, server.ledger().queued) == ({"zero_variance": 2}, 1)
    rows = TrajectoryGroup.objects.filter(state="dropped", drop_reason="zero_variance")
    assert rows.count() == 2
    assert Payload.objects.count() == 1


def test_single_sequences_and_buffered_groups_are_not_dropped(server: Server) -> None:
    server.change(drop_zero_variance=True)
    server.http.get("/atropos/demo/batch", headers={"Authorization": server.trainer})
    server.call("/atropos/demo/register-env", body(ENVIRONMENT | {"group_size": 4}), server.env)

    single = server.push_json(group(sequences=1, scores=[0.5]))
    halves = server.push_json(
        group(env_id=0, scores=[0.0, 0.0]), group(env_id=0, scores=[0.0, 1.0])
    )

    assert "dropped" not in single
    assert (halves["dropped"], halves["buffered"]) == ({"zero_variance": 1}, 1)
    assert server.ledger().waiting == 1


def test_stale_groups_are_dropped_as_stale(server: Server) -> None:
    server.change(drop_zero_variance=True)

    answer = server.push_json(group(policy_step=7, scores=[0.0, 0.0]))

    assert answer["dropped"] == {"future": 1}


def test_a_push_repeated_after_the_setting_changed_is_answered_as_before(server: Server) -> None:
    data = body(group(scores=[0.0, 0.0]))
    headers = {"Authorization": server.env, "Idempotency-Key": "k"}
    path = "/atropos/demo/scored_data"

    first = server.http.post(path, data=data, content_type="application/json", headers=headers)
    server.change(drop_zero_variance=True)
    again = server.http.post(path, data=data, content_type="application/json", headers=headers)

    assert again.json() == first.json()
    assert server.ledger().queued == 1


def test_the_arrays_of_a_batch_contain_the_added_advantages(server: Server) -> None:
    server.change(advantages="rloo")
    server.push_as("json", group(scores=[1.0, -0.5]))
    server.push_as("msgpack", group(scores=[1.0, -0.5]))

    contents = zip(server.stored(), ["json", "msgpack"], strict=True)

    firsts = [np.array([row[0] for row in advantages_in(*content)]) for content in contents]
    assert np.array_equal(firsts[0], firsts[1])
