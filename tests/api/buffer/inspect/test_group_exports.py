"""Exports of selected groups as JSON lines and Parquet, streamed in parts."""

import io
import json
from itertools import pairwise
from typing import Any

import httpx
import msgspec
import pyarrow.parquet
import pytest
from django.test import Client

from buffer.items.models import TrajectoryGroup
from runs.lifecycle.models import Run
from tests.buffer_factories import group
from tests.factories import bearer, make_run
from tests.live_server import serving

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run() -> Run:
    return make_run(name="demo", kind="outside", status="running", drop_zero_variance=True)


def push(run: Run, *groups: dict[str, Any]) -> None:
    content = json.dumps(list(groups), indent=1).encode()
    answer = Client().post(
        "/atropos/demo/scored_data_list",
        content,
        "application/json",
        headers=bearer("env", run=run),
    )
    assert answer.status_code == 200, answer.content


def exported(run: Run, **query: Any) -> bytes:
    answer = Client().get("/api/v1/runs/demo/groups/export", query, headers=bearer("read", run=run))
    assert answer.status_code == 200, answer.content
    return b"".join(answer.streaming_content)  # type: ignore[attr-defined]


def test_each_group_is_one_complete_line(run: Run) -> None:
    sent = group(mark=5) | {"scores": [0.0, 1.0], "messages": [[], []]}
    push(run, sent, group(mark=6))

    lines = [json.loads(line) for line in exported(run).splitlines()]

    assert [line["state"] for line in lines] == ["dropped", "queued"]
    assert (lines[0]["group"], lines[0]["missing"][-19:]) == (None, "they were not stored"[-19:])
    assert lines[1]["group"] | sent == lines[1]["group"]
    assert lines[1]["score_mean"] == 0.5
    assert len(exported(run, q="state:queued").splitlines()) == 1


def test_an_export_of_several_pages_has_each_group_once(run: Run) -> None:
    push(run, *(group(mark=mark) | {"scores": [0.0, 1.0]} for mark in range(120)))

    ids = [json.loads(line)["id"] for line in exported(run).splitlines()]

    assert len(ids) == 120
    assert all(newer > older for newer, older in pairwise(ids))
    assert len(exported(run, limit=70).splitlines()) == 70


def test_parquet_has_a_row_for_each_group(run: Run) -> None:
    sent = group(mark=5) | {"scores": [0.0, 1.0]}
    push(run, sent, group(mark=6))

    table = pyarrow.parquet.read_table(io.BytesIO(exported(run, form="parquet")))

    dropped, queued = table.to_pylist()
    assert (dropped["group"], queued["missing"]) == (None, "")
    whole = json.loads(queued["group"])
    assert whole | sent == whole
    assert queued["received_at"].tzinfo is not None
    assert (
        pyarrow.parquet.read_table(
            io.BytesIO(exported(run, form="parquet", q="state:leased"))
        ).num_rows
        == 0
    )


def samples_of(run: Run, **query: Any) -> Any:
    log = json.loads(exported(run, form="inspect", **query))
    assert (log["version"], log["status"], log["eval"]["task"]) == (2, "success", "demo")
    assert log["results"]["total_samples"] == len(log["samples"])
    return log["samples"]


def test_an_inspect_log_has_a_sample_for_each_sequence(run: Run) -> None:
    call = {"type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}, "id": "c1"}
    talk = [
        {"role": "developer", "content": "Use the tool."},
        {"role": "user", "content": "1 + 1?"},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning": "hm"},
        {"role": "tool", "tool_call_id": "c1", "name": "add", "content": "2"},
        {"role": "assistant", "content": "It is 2."},
    ]
    push(run, group(mark=5) | {"scores": [0.0, 1.0], "messages": [talk, talk[:2]]}, group(mark=6))

    whole, short = samples_of(run, q="state:queued")

    assert [m["role"] for m in whole["messages"]] == [
        *("system", "user", "assistant", "tool", "assistant")
    ]
    assert whole["input"] == whole["messages"][:2]
    assert whole["messages"][2]["content"] == [{"type": "reasoning", "reasoning": "hm"}]
    (made,) = whole["messages"][2]["tool_calls"]
    assert made == {"id": "c1", "function": "add", "arguments": {"a": 1}}
    assert whole["messages"][3]["tool_call_id"] == "c1"
    (choice,) = whole["output"]["choices"]
    assert choice["message"]["content"] == [{"type": "text", "text": "It is 2."}]
    assert [one["scores"]["score"]["value"] for one in (whole, short)] == [0.0, 1.0]
    assert (short["id"], short["epoch"], short["output"]["choices"]) == (whole["id"], 2, [])
    # A group without stored content is a sample with the reason.
    missing = [one for one in samples_of(run) if "error" in one]
    assert [one["metadata"]["drop_reason"] for one in missing] == ["zero_variance"]


def test_roles_of_other_formats_are_roles_of_inspect(run: Run) -> None:
    call = {"function": {"name": "add", "arguments": "{}"}}
    talk = [
        {"role": "human", "content": "1 + 1?", "tool_calls": [call]},
        {"role": "gpt", "content": "2"},
    ]
    push(run, group(mark=5) | {"scores": [0.0, 1.0], "messages": [talk, talk]})

    asked, answered = samples_of(run)[0]["messages"]

    # Only an assistant has calls in Inspect; those of another role are text.
    assert (asked["role"], "tool_calls" in asked) == ("user", False)
    assert [part["text"] for part in asked["content"]] == ["1 + 1?", "add({})"]
    assert answered["role"] == "assistant"
    assert samples_of(run)[0]["output"]["choices"][0]["message"] == answered


def test_the_inspect_log_of_no_group_is_complete(run: Run) -> None:
    assert samples_of(run, q="state:leased") == []


def test_sequences_without_messages_are_token_ids_in_an_inspect_log(run: Run) -> None:
    sent = group(mark=5) | {"scores": [0.0, 1.0]}
    push(run, sent)
    for one, tokens in zip(samples_of(run), sent["tokens"], strict=True):
        written = " ".join(each["content"] for each in one["messages"]).split()
        assert written == [str(token) for token in tokens]


def test_a_web_server_streams_the_export(run: Run) -> None:
    push(run, *(group(mark=mark) | {"scores": [0.0, 1.0]} for mark in range(60)))

    with serving() as address:
        answer = httpx.get(
            f"{address}/api/v1/runs/demo/groups/export",
            headers=bearer("read", run=run),
            timeout=60,
        )

    assert "content-length" not in answer.headers
    assert len(answer.content.splitlines()) == TrajectoryGroup.objects.count() == 60
    assert msgspec.json.decode(answer.content.splitlines()[0])["missing"] == ""


def test_invalid_export_parameters_are_refused(run: Run) -> None:
    for query in ({"form": "csv"}, {"limit": "0"}, {"state": "eaten"}):
        answer = Client().get(
            "/api/v1/runs/demo/groups/export", query, headers=bearer("read", run=run)
        )
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["field"] == next(iter(query))
