"""Content of groups: sequences, windows of tokens, messages, the whole."""

from typing import Any

import numpy as np
import pytest
from django.test import Client

from buffer.items.models import TrajectoryGroup
from rolldeck import wire
from rolldeck.group_encoding import pack_group
from rolldeck.wire import GROUPS_TYPE
from runs.lifecycle.models import Run
from tests.buffer_factories import body, group
from tests.factories import bearer, make_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run() -> Run:
    return make_run(name="demo", kind="outside", status="running")


def push(run: Run, content: dict[str, Any]) -> int:
    """Push a group in the binary form; return its id."""
    data = wire.encode(wire.GroupPush(groups=[wire.encode(pack_group(content))]))
    headers = bearer("env", run=run)
    answer = Client().post("/api/v1/runs/demo/groups", data, GROUPS_TYPE, headers=headers)
    assert answer.status_code == 200, answer.content
    return TrajectoryGroup.objects.order_by("-id")[0].pk


def get(run: Run, path: str, **query: Any) -> Any:
    headers = bearer("read", run=run)
    return Client().get(f"/api/v1/runs/demo/groups/{path}", query, headers=headers)


def test_a_long_sequence_is_served_in_windows(run: Run) -> None:
    tokens = [list(range(10_000))]
    logprobs = [np.full(10_000, -0.5, dtype=np.float32)]
    path = push(
        run, {"tokens": tokens, "masks": tokens, "scores": [1.0], "inference_logprobs": logprobs}
    )

    sequence = get(run, f"{path}/sequences/0", start=9_998, count=100).json()

    assert (sequence["tokens"], sequence["logprobs"]) == ([9998, 9999], [-0.5, -0.5])
    assert (sequence["total"], sequence["start"], sequence["text"]) == (10_000, 9_998, None)
    assert len(get(run, f"{path}/sequences/0").json()["tokens"]) == 4096
    assert get(run, f"{path}/sequences/1").status_code == 404
    assert get(run, f"{path}/sequences/0", count=1 << 20).status_code == 400


def test_sequences_are_listed_without_their_tokens(run: Run) -> None:
    path = push(run, group(mark=4, generation_params={"temperature": 0.7}))

    sequences = get(run, f"{path}/sequences").json()

    assert sequences["common_prefix"] == 3
    assert [row["duplicate_of"] for row in sequences["results"]] == [None, 0]
    assert sequences["fields"] == [
        {"name": "generation_params", "text": '{"temperature":0.7}', "characters": 19}
    ]


def test_content_is_json_for_both_codecs(run: Run) -> None:
    sent = group(mark=4, mine=[1])
    path = push(run, sent)

    whole = get(run, f"{path}/content")
    beginning = get(run, f"{path}/content", characters=12)

    assert whole.json() | sent == whole.json()
    assert "attachment" in whole["Content-Disposition"]
    assert beginning.content.decode() == whole.content.decode()[:12]
    assert beginning["Content-Type"].startswith("text/plain")


def test_messages_of_a_sequence_are_shown_unchanged(run: Run) -> None:
    hostile = "<script>alert(1)</script>\u202e\u0000"
    path = push(run, group(messages=[[{"role": "user", "content": hostile}], []]))

    messages = get(run, f"{path}/sequences/0/messages").json()

    assert [row["parts"][0]["text"] for row in messages["results"]] == [hostile]
    assert get(run, f"{path}/sequences/1/messages").json()["results"] == []
    assert get(run, f"{path}/sequences/2/messages").status_code == 404


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_messages_are_read_a_page_at_a_time(run: Run, limit: int) -> None:
    messages = [{"role": "user", "content": f"line {number}"} for number in range(5)]
    group_path = push(run, group(messages=[messages, []]))
    path, texts = f"{group_path}/sequences/0/messages", []

    page = get(run, f"{path}?limit={limit}").json()
    texts += [row["parts"][0]["text"] for row in page["results"]]
    while page["next"] is not None:
        page = get(run, f"{path}?limit={limit}&cursor={page['next']}").json()
        assert 1 <= len(page["results"]) <= limit
        texts += [row["parts"][0]["text"] for row in page["results"]]

    assert texts == [f"line {number}" for number in range(5)]
    assert page["total"] == 5
    assert get(run, f"{path}?limit=0").status_code == 400
    foreign = get(run, f"{group_path}/sequences/1/messages?cursor=nonsense").json()
    assert foreign["errors"][0]["field"] == "cursor"


def test_cached_content_is_not_sent_again(run: Run) -> None:
    path = push(run, group())
    first = get(run, f"{path}/sequences/0")

    again = Client().get(
        f"/api/v1/runs/demo/groups/{path}/sequences/0",
        headers=bearer("read", run=run) | {"If-None-Match": first["ETag"]},
    )

    assert (again.status_code, again.content) == (304, b"")


def test_reads_change_no_state(run: Run) -> None:
    group_path = push(run, group())
    before = TrajectoryGroup.objects.filter(pk=group_path).values().get()

    for path in ("", "/sequences", "/sequences/0", "/sequences/0/messages", "/content"):
        assert get(run, f"{group_path}{path}").status_code == 200
        refused = Client().post(
            f"/api/v1/runs/demo/groups/{group_path}{path}",
            body({}),
            "application/json",
            headers=bearer("admin"),
        )
        assert refused.status_code == 405

    assert TrajectoryGroup.objects.filter(pk=group_path).values().get() == before
