"""Pushes that were refused are counted with the environment that they name, and why."""

import gzip
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest
from django.test import Client

from rolldeck import wire
from rolldeck.group_encoding import pack_group
from rolldeck.wire import GROUPS_TYPE
from runs.alerts.models import Alert
from runs.alerts.queries.conditions import RECENT, UNREGISTERED
from runs.lifecycle.models import Environment, Run
from runs.lifecycle.services.refused_pushes import (
    FURTHER,
    REASONS_KEPT,
    flush_refused_pushes,
)
from tests.alert_evaluation import evaluate_alerts
from tests.api.buffer.outside_run import OutsideRun, make_mixed_run
from tests.buffer_factories import body, group
from tests.factories import make_token
from tests.live_server import serving

pytestmark = pytest.mark.django_db(transaction=True)
GZIP = {"Content-Encoding": "gzip"}


@pytest.fixture
def outside(settings: Any) -> OutsideRun:
    """A run with two environments, whose refused pushes are counted."""
    settings.COUNT_REFUSED_PUSHES = True
    return make_mixed_run()


def push(content: Any, status: int, **headers: str) -> None:
    path = f"/atropos/words/scored_data{'_list' if isinstance(content, list) else ''}"
    sent = content if isinstance(content, bytes) else body(content)
    assert post(path, sent, "application/json", **headers) == status


def push_binary(outside: OutsideRun, *groups: dict[str, Any], status: int) -> None:
    sent = wire.encode(wire.GroupPush(groups=[msgspec.msgpack.encode(group) for group in groups]))
    token = {"Authorization": f"Bearer {make_token('env', run=outside.run)[1]}"}
    assert post("/api/v1/runs/words/groups", sent, GROUPS_TYPE, **token) == status


def post(path: str, sent: bytes, kind: str, **headers: str) -> int:
    return int(Client().generic("POST", path, sent, kind, headers=headers).status_code)


def refused(outside: OutsideRun) -> dict[int, dict[str, Any]]:
    """Count the refusals so far, and return the data of the page."""
    flush_refused_pushes()
    rows = outside.get("environments")["results"]
    return {row["env_id"]: row["refused"] for row in rows}


def test_refusals_are_counted_by_environment_and_reason(outside: OutsideRun) -> None:
    push(group(env_id=0), 200)
    push(group(env_id=0) | {"scores": [1.0]}, 422)
    push({"env_id": 0, "masks": [[1]], "scores": [1.0]}, 422)
    push({"env_id": 0, "tokens": [[1]], "scores": [1.0]}, 422)
    refusals = refused(outside)

    assert refusals[1] == {}
    assert refusals[0].keys() == {"missing", "length_mismatch"}
    assert refusals[0]["missing"]["pushes"] == 2
    assert refusals[0]["missing"]["message"] == "body.masks: Field required"

    push({"env_id": 0, "masks": [[1]], "scores": [1.0]}, 422)
    again = refused(outside)[0]["missing"]
    assert (again["pushes"], again["message"]) == (3, "body.tokens: Field required")
    assert again["newest_at"] > refusals[0]["missing"]["newest_at"]


def test_a_push_of_several_counts_for_each_environment_that_it_names(outside: OutsideRun) -> None:
    broken = group(env_id=1) | {"scores": [1.0]}
    push([group(env_id=0), broken, broken], 422)

    refusals = refused(outside)
    counted = [list(refusals[env].values()) for env in (0, 1)]
    assert [[(one["pushes"], one["groups"]) for one in of_env] for of_env in counted] == [
        [(1, 1)],
        [(1, 2)],
    ]


def test_binary_pushes_are_counted_as_well(outside: OutsideRun) -> None:
    good, other = (msgspec.structs.asdict(pack_group(group(env_id=env))) for env in (0, 1))
    push_binary(outside, good, status=200)
    push_binary(outside, good, other | {"scores": 7}, status=422)
    push_binary(outside, good | {"scores": []}, status=422)
    assert post("/api/v1/runs/words/groups", b"{", GROUPS_TYPE) == 401

    refusals = refused(outside)
    assert {env: counts["invalid_data"]["pushes"] for env, counts in refusals.items()} == {
        0: 2,
        1: 1,
    }
    assert "scores" in refusals[1]["invalid_data"]["message"]


def test_a_run_that_refuses_pushes_and_a_full_queue_have_their_own_reasons(
    outside: OutsideRun, settings: Any
) -> None:
    settings.ROLLDECK_MAX_QUEUED_GROUPS = 0
    push(group(env_id=1), 503)
    settings.ROLLDECK_MAX_QUEUED_GROUPS = 100
    outside.operator.post("/api/v1/runs/words/kill", content_type="application/json")
    push(group(env_id=1), 409)

    refusals = refused(outside)[1]
    assert {reason: counts["pushes"] for reason, counts in refusals.items()} == {
        "over_quota": 1,
        "run_not_accepting": 1,
    }


def test_refusals_of_unknown_environments_are_counted_without_one(outside: OutsideRun) -> None:
    for content in (group(env_id=7), group(env_id=-1), b"{", b"", {"env_id": "zero"}):
        push(content, 422)
    push(group(env_id=0) | {"scores": []}, 401, Authorization="Bearer unknown")

    assert refused(outside) == {0: {}, 1: {}}


def test_the_reasons_of_one_environment_are_limited(outside: OutsideRun) -> None:
    Environment.objects.filter(env_id=0).update(
        refused={
            f"reason_{n}": {"pushes": 1, "newest_at": "2026-03-01T12:00:00Z", "message": ""}
            for n in range(REASONS_KEPT)
        }
    )
    for _ in range(2):
        push({"env_id": 0}, 422)
        refusals = refused(outside)[0]

    assert len(refusals) == REASONS_KEPT + 1
    assert refusals[FURTHER]["pushes"] == 2


def diagnosis(outside: OutsideRun) -> dict[str, Any]:
    return outside.get("pipeline")["diagnosis"]


def test_a_run_that_refuses_pushes_reports_it_in_its_diagnosis_and_by_an_alert(
    outside: OutsideRun,
) -> None:
    Run.objects.update(status="running")
    for _ in range(3):
        push(group(env_id=0) | {"scores": [1.0]}, 422)
    refused(outside)
    now = datetime.now(UTC)
    evaluate_alerts(now=now)

    alert = Alert.objects.get(kind="pushes_refused")
    name = Environment.objects.get(env_id=0).wandb_name
    problem = "body.scores: has 1 entries for 2 sequences"
    remedy = "Correct the field in the environment, or set `lenient` on the run to accept groups "
    remedy += "with inconsistent lengths."
    assert alert.message == f"words refuses pushes of {name}: {problem}. {remedy}"
    assert (alert.severity, alert.subject, alert.details) == (
        "error",
        name,
        {"groups": 3, "pushes": 3, "reason": "length_mismatch"},
    )
    state = diagnosis(outside)
    assert state["summary"] == "Pushes are refused: 3 groups are lost."
    [evidence] = state["evidence"]
    assert evidence == (
        f"{name}: 3 groups in 3 pushes refused, most recently because of {problem} "
        "(length_mismatch)"
    )
    assert state["change"] == remedy

    evaluate_alerts(now=now + RECENT + timedelta(seconds=1))
    assert not Alert.objects.filter(cleared_at=None, kind="pushes_refused").exists()


def test_refused_pushes_of_unregistered_environments_are_counted_for_the_run(
    outside: OutsideRun,
) -> None:
    for content in (group(env_id=7), b"{", b"", {"env_id": "zero"}, [group(env_id=7), group()]):
        push(content, 422)
    # A push that names one environment of the run counts for that one alone.
    push([group(env_id=0), group(env_id=7)], 422)
    push(group(), 401, Authorization="Bearer unknown")
    flush_refused_pushes()

    counts = Run.objects.get().refused
    assert counts is not None
    assert {reason: one["pushes"] for reason, one in counts.items()} == {
        "unknown_environment": 2,
        "json_invalid": 2,
        "missing": 1,
    }
    push(group(env_id=8), 422)
    flush_refused_pushes()
    newest = (Run.objects.get().refused or {})["unknown_environment"]
    assert (newest["pushes"], newest["message"]) == (
        3,
        "body.env_id: this run has no environment 8",
    )


def test_a_run_without_environments_reports_refused_pushes_instead_of_missing_ones(
    outside: OutsideRun,
) -> None:
    Environment.objects.all().delete()
    Run.objects.update(status="running")
    assert diagnosis(outside)["kind"] == "run_stalled"
    for _ in range(3):
        push(group(env_id=0), 422)
    flush_refused_pushes()
    now = datetime.now(UTC)
    evaluate_alerts(now=now)

    alert = Alert.objects.get(kind="pushes_refused")
    problem = "body.env_id: this run has no environment 0"
    assert alert.message.startswith(f"words refuses pushes of {UNREGISTERED}: {problem}. Register ")
    assert alert.details == {"groups": 3, "pushes": 3, "reason": "unknown_environment"}
    state = diagnosis(outside)
    assert state["kind"] == "pushes_refused"
    counted = f"{UNREGISTERED}: 3 groups in 3 pushes refused"
    assert state["evidence"] == [
        f"{counted}, most recently because of {problem} (unknown_environment)"
    ]

    evaluate_alerts(now=now + RECENT + timedelta(seconds=1))
    assert not Alert.objects.filter(cleared_at=None, kind="pushes_refused").exists()


def test_a_full_queue_raises_a_separate_alert(outside: OutsideRun, settings: Any) -> None:
    Run.objects.update(status="running")
    settings.ROLLDECK_MAX_QUEUED_GROUPS = 0
    push(group(env_id=0), 503)
    refused(outside)
    evaluate_alerts(now=datetime.now(UTC))

    assert not Alert.objects.filter(kind="pushes_refused").exists()


GOOD = b'{"env_id": 0, "tokens": [[1, 2]], "masks": [[1, 2]], "scores": [0.5]}'
TEN = b"[" + b", ".join([GOOD] * 9 + [GOOD.replace(b"0.5", b"-Infinity")]) + b"]"


@pytest.mark.parametrize(
    ("content", "env_id", "groups", "reason"),
    [
        (GOOD.replace(b"0.5", b"NaN"), 0, 1, "finite_number"),
        (GOOD.replace(b"0.5", b"Infinity"), 0, 1, "finite_number"),
        (TEN, 0, 10, "finite_number"),
        (TEN.replace(b'"env_id": 0', b'"env_id": "0"'), 0, 10, "finite_number"),
        (GOOD.replace(b"[[1, 2]]", b'"\\ud800"', 1), 0, 1, "json_invalid"),
        (GOOD[:-1], 0, 1, "json_invalid"),
        (GOOD.replace(b'"env_id": 0', b'"env_id":1'), 1, 1, None),
        (GOOD.replace(b'"env_id": 0', b'"env_id": 9'), None, 1, "unknown_environment"),
        (b"[" + GOOD + b", " + GOOD[:-1], 0, 2, "json_invalid"),
        (b"\xff\xfe" + GOOD, 0, 1, "value_error"),
    ],
    ids=[
        "NaN",
        "infinity",
        "one infinity among ten groups",
        "an id as text",
        "a lone surrogate",
        "cut off",
        "accepted",
        "an unknown environment",
        "a list that is cut off",
        "no UTF-8",
    ],
)
def test_refused_groups_are_counted_for_the_environment_that_the_body_names(
    outside: OutsideRun, content: bytes, env_id: int | None, groups: int, reason: str | None
) -> None:
    path = f"/atropos/words/scored_data{'_list' if content.startswith(b'[') else ''}"
    status = post(path, content, "application/json")
    refusals = refused(outside)

    assert status == (200 if reason is None else 422)
    of_run = Run.objects.get().refused or {}
    counted = of_run if env_id is None else refusals[env_id]
    assert {key: one["groups"] for key, one in counted.items()} == (
        {} if reason is None else {reason: groups}
    )
    assert bool(of_run) is (reason is not None and env_id is None)


@pytest.mark.parametrize(
    ("path", "body_of", "headers", "status", "reason"),
    [
        ("/atropos/words/scored_data", b"x" * 4_000, {}, 413, "too_large"),
        ("/atropos/words/scored_data_list", b"x" * 4_000, {}, 413, "too_large"),
        ("/api/v1/runs/words/groups", b"x" * 4_000, {}, 413, "too_large"),
        ("/atropos/words/scored_data", gzip.compress(bytes(10**6)), GZIP, 413, "too_large"),
        ("/atropos/words/scored_data", b"no gzip", GZIP, 400, "invalid"),
        ("/atropos/words/scored_data", gzip.compress(GOOD)[:-9], GZIP, 400, "invalid"),
        ("/atropos/words/scored_data", GOOD, {"Content-Encoding": "br"}, 415, "unknown_encoding"),
        ("/atropos/words/scored_data", iter([b"x" * 4_000]), {}, 413, "too_large"),
        ("/scored_data", b"x" * 4_000, {}, 413, None),
        ("/atropos/other/scored_data", b"x" * 4_000, {}, 413, None),
        ("/atropos/words/register-env", b"x" * 4_000, {}, 413, None),
    ],
    ids=[
        "length of a push",
        "length of a list",
        "length of a native push",
        "ratio",
        "no gzip",
        "gzip that is cut off",
        "encoding",
        "length without Content-Length",
        "another run: the default one",
        "a run that does not exist",
        "no push",
    ],
)
def test_pushes_that_are_refused_before_they_are_decoded_are_counted_for_the_run(
    outside: OutsideRun,
    settings: Any,
    path: str,
    body_of: Any,
    headers: dict[str, str],
    status: int,
    reason: str | None,
) -> None:
    settings.ROLLDECK_MAX_BODY_BYTES = 2_000
    token = {"Authorization": f"Bearer {make_token('env', run=outside.run)[1]}"}
    with serving() as url:
        answer = httpx.post(url + path, content=body_of, headers=headers | token, timeout=60)
    flush_refused_pushes()

    assert answer.status_code == status, answer.text
    counted = Run.objects.get(name="words").refused or {}
    assert {key: one["pushes"] for key, one in counted.items()} == ({reason: 1} if reason else {})


@pytest.mark.parametrize("width", [8_192, 32_768])
def test_a_padded_group_that_compresses_well_is_accepted(outside: OutsideRun, width: int) -> None:
    row = [7] * 60 + [0] * (width - 60)
    content = gzip.compress(body({"tokens": [row] * 16, "masks": [row] * 16, "scores": [0.5] * 16}))
    Run.objects.update(max_token_len=width)
    with serving() as url:
        answer = httpx.post(
            f"{url}/atropos/words/scored_data", content=content, headers=GZIP, timeout=60
        )

    assert answer.status_code == 200, answer.text
