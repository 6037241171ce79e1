"""Calls that a proxy captured, and the groups that their scores make of them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import Settings
from rest_framework.test import APIClient

from buffer.capture.models import CapturedCall, CaptureSession
from buffer.capture.services import delete_old_captures
from buffer.items.models import TrajectoryGroup
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import content_head
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.services.refused_pushes import flush_refused_pushes
from tests.factories import bearer, make_run

pytestmark = pytest.mark.django_db(transaction=True)


def call(key: str = "a", *, prompt: list[int] | None = None, **fields: Any) -> dict[str, Any]:
    answer = {
        "tokens": [3, 4],
        "logprobs": [-0.5, -0.25],
        "versions": [{"epoch": 0, "step": 0, "tokens": 2}],
        "message": {"role": "assistant", "content": "ab"},
    }
    messages = [{"role": "user", "content": "hi"}]
    request = {"key": key, "kind": "chat", "messages": messages, "prompt_tokens": prompt or [1, 2]}
    return {**request, "answers": [answer], **fields}


class Server:
    def __init__(self) -> None:
        self.run: Run = make_run(name="agents", kind="outside", status="running")
        Run.objects.filter(pk=self.run.pk).update(batch_size=2, max_token_len=64)
        self.env = bearer("env", run=self.run)
        self.trainer = bearer("trainer", "read", run=self.run)

    def post(self, path: str, content: Any) -> Any:
        return APIClient().post(
            f"/api/v1/runs/agents/{path}", content, format="json", headers=self.env
        )

    def add(self, session: str, content: dict[str, Any]) -> Any:
        return self.post(f"captures/{session}/calls", content)

    def score(self, **scores: float | None) -> Any:
        return self.post("capture-scores", {"scores": scores})

    def get(self, path: str) -> Any:
        return APIClient().get(f"/api/v1/runs/agents/{path}", headers=self.trainer)


@pytest.fixture
def server() -> Server:
    return Server()


def stored() -> dict[str, Any]:
    (group,) = TrajectoryGroup.objects.all()
    content: dict[str, Any] = json.loads(content_head(ItemKind.GROUPS, group.pk, 1 << 20))
    return content


def test_scored_sessions_become_one_group(server: Server) -> None:
    server.add("one", call())
    server.add("one", call("b", prompt=[1, 2, 3, 4, 9]))
    server.add("two", call())

    scored = server.score(one=1.0, two=0.0)

    assert scored.json() == {"sequences": 2, "tokens": 6, "dropped": "", "gaps": {}}
    group = stored()
    assert group["tokens"] == [[1, 2, 3, 4, 9, 3, 4], [1, 2, 3, 4]]
    assert group["masks"] == [[-100, -100, 3, 4, -100, 3, 4], [-100, -100, 3, 4]]
    assert group["scores"] == [1.0, 0.0]
    assert group["inference_logprobs"][1] == [1.0, 1.0, -0.5, -0.25]
    assert group["messages"][1] == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "ab"},
    ]
    assert (group["epoch"], group["policy_step"]) == (0, 0)


def test_a_session_of_several_sequences_counts_once_in_the_advantages(server: Server) -> None:
    Run.objects.filter(pk=server.run.pk).update(advantages="rloo")
    for place in range(3):
        server.add("one", call(str(place), prompt=[1, 5 + place]))
    server.add("two", call())
    server.add("three", call())

    server.score(one=1.0, two=0.0, three=0.0)

    group = stored()
    assert group["scores"] == [1.0, 1.0, 1.0, 0.0, 0.0]
    assert [row[0] for row in group["advantages"]] == [1.0, 1.0, 1.0, -0.5, -0.5]
    assert [len(row) for row in group["advantages"]] == [len(row) for row in group["tokens"]]


def test_a_repeated_call_or_score_counts_once(server: Server) -> None:
    first, again = server.add("one", call()), server.add("one", call())
    scored, repeated = server.score(one=1.0), server.score(one=1.0)

    assert (first.json(), again.json()) == (
        {"number": 0, "is_new": True},
        {"number": 0, "is_new": False},
    )
    assert scored.json() == repeated.json()
    assert TrajectoryGroup.objects.count() == 1


def test_a_scored_session_refuses_calls_and_scores(server: Server) -> None:
    server.add("one", call())
    server.score(one=1.0)

    for refused in (server.score(one=0.5), server.add("one", call("b"))):
        assert (refused.status_code, refused.json()["code"]) == (409, "session_over")
    assert TrajectoryGroup.objects.count() == 1


def test_an_unknown_session_is_named_and_nothing_is_scored(server: Server) -> None:
    server.add("one", call())

    refused = server.score(one=1.0, other=0.0)

    assert refused.status_code == 404
    assert refused.json()["errors"][0]["field"] == "scores.other"
    assert CaptureSession.objects.get().state == "open"
    assert not TrajectoryGroup.objects.exists()


def test_gaps_are_listed_and_a_session_of_gaps_makes_no_group(server: Server) -> None:
    gap = {"key": "g", "kind": "chat", "gap": "no token ids"}
    server.add("one", call())
    server.add("one", gap)
    server.add("two", gap)

    alone = server.score(two=1.0)
    both = server.score(one=1.0, two=0.0)

    assert (alone.status_code, alone.json()["code"]) == (409, "nothing_captured")
    assert both.json()["gaps"] == {"one": ["call 1: no token ids"], "two": ["call 0: no token ids"]}
    assert stored()["group_overrides"]["captured"]["one"] == ["call 1: no token ids"]


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (call(gap="half"), "gap"),
        (call(prompt_tokens=[]), "prompt_tokens"),
        (call(answers=[{"tokens": [1], "logprobs": []}]), "answers[0].logprobs"),
        (call(answers=[{"tokens": [-1], "logprobs": [0.0]}]), "answers[0].tokens[0]"),
        (
            call(
                answers=[
                    {
                        "tokens": [1],
                        "logprobs": [0.0],
                        "versions": [{"epoch": 0, "step": 0, "tokens": 2}],
                    }
                ]
            ),
            "answers[0].versions",
        ),
        ({"key": "", "kind": "chat"}, "key"),
        (call(repair={"start": 1, "stop": 3, "tokens": [9]}), "repair"),
        (call(repair={"start": 2, "stop": 1, "tokens": [9]}), "repair"),
        (call(repair={"start": 0, "stop": 1, "tokens": [-1]}), "repair.tokens[0]"),
    ],
)
def test_an_invalid_call_is_refused_with_its_field_counted_and_not_stored(
    server: Server, content: dict[str, Any], field: str, settings: Settings
) -> None:
    settings.COUNT_REFUSED_PUSHES = True
    refused = server.add("one", content)

    assert refused.status_code in {400, 422}
    assert refused.json()["errors"][0]["field"] == field
    assert not CaptureSession.objects.exists()
    flush_refused_pushes()
    [counted] = Run.objects.get().refused.values()
    assert (counted["pushes"], counted["groups"]) == (1, 1)


def test_a_session_is_shown_with_the_sequences_of_its_calls(server: Server) -> None:
    server.add("one", call())

    listed, shown = server.get("captures").json()["results"], server.get("captures/one").json()

    assert [(row["name"], row["state"], row["calls"]) for row in listed] == [("one", "open", 1)]
    assert shown["sequences"][0]["tokens"] == [1, 2, 3, 4]
    assert shown["gaps"] == []
    assert server.get("captures/other").status_code == 404


def test_a_repair_applies_only_if_an_earlier_call_has_its_tokens(server: Server) -> None:
    right = {"start": 2, "stop": 3, "tokens": [3, 4]}
    for session, repair in (("one", right), ("two", right | {"tokens": [3, 5]})):
        server.add(session, call())
        server.add(session, call("b", prompt=[1, 2, 34, 9], repair=repair))

    one, two = (server.get(f"captures/{session}").json() for session in ("one", "two"))

    assert [row["tokens"] for row in one["sequences"]] == [[1, 2, 3, 4, 9, 3, 4]]
    assert [row["tokens"] for row in two["sequences"]] == [[1, 2, 3, 4], [1, 2, 34, 9, 3, 4]]
    assert (one["repairs"], two["repairs"]) == (1, 0)
    server.score(one=1.0, two=0.0)
    assert stored()["group_overrides"]["repairs"] == {"one": 1, "two": 0}


def test_an_unscored_session_expires_with_an_event(server: Server) -> None:
    server.add("old", call())
    server.add("scored", call())
    server.score(scored=1.0)
    later = datetime.now(UTC) + timedelta(days=2)

    assert delete_old_captures(now=later) == 1

    assert CaptureSession.objects.get(name="old").state == "expired"
    assert not CapturedCall.objects.exists()
    assert RunEvent.objects.filter(kind="capture_expired").count() == 1
    assert delete_old_captures(now=later) == 0


def test_a_run_of_fragments_captures_nothing() -> None:
    run = make_run(name="agents", status="running")

    refused = APIClient().post(
        "/api/v1/runs/agents/captures/one/calls",
        call(),
        format="json",
        headers=bearer("worker", run=run),
    )

    assert (refused.status_code, refused.json()["code"]) == (409, "run_not_accepting")


@pytest.mark.parametrize(
    ("policy", "scores", "status", "sequences", "dropped"),
    [
        ("refuse", {"one": 1.0, "two": None}, 422, 0, ""),
        ("drop", {"one": 1.0, "two": 0.0, "three": None}, 200, 2, "short_group"),
        ("shrink", {"one": 1.0, "two": 0.0, "three": None}, 200, 2, ""),
        ("shrink", {"one": 1.0, "two": None}, 200, 1, "short_group"),
        ("shrink", {"one": None, "two": None}, 200, 0, "short_group"),
    ],
)
def test_a_session_without_a_score_follows_the_policy_of_the_run(
    server: Server,
    policy: str,
    scores: dict[str, float | None],
    status: int,
    sequences: int,
    dropped: str,
) -> None:
    Run.objects.filter(pk=server.run.pk).update(unscored_sequences=policy)
    for name in scores:
        server.add(name, call())
    answer = server.score(**scores)

    assert answer.status_code == status, answer.content
    if status == 422:
        assert answer.json()["errors"][0]["field"] == "scores.two"
        assert not CaptureSession.objects.exclude(state="open").exists()
        return
    assert (answer.json()["sequences"], answer.json()["dropped"]) == (sequences, dropped)
    assert server.score(**scores).json() == answer.json()
    assert not CaptureSession.objects.exclude(state="scored").exists()
    ledger = server.get("ledger").json()
    assert ledger["failed"] == {"rollout_unscored": list(scores.values()).count(None)}
