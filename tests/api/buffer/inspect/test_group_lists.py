"""Lists, facets, search and details of groups."""

import json
from typing import Any

import msgspec
import pytest
from django.test import Client

from buffer.inspect.api.fragment_lists import newest_part
from buffer.inspect.models import DigestCursor, GroupDigest
from buffer.inspect.queries import group_contents
from buffer.inspect.services import digest_groups
from buffer.items.models import TrajectoryGroup
from runs.lifecycle.models import Run
from tests.buffer_factories import ENVIRONMENT, REGISTRATION, body, group
from tests.factories import NOON, make_run, make_token

pytestmark = pytest.mark.django_db(transaction=True)


class Server:
    """A run whose environment pushes and whose groups people look for."""

    def __init__(self, **run: Any) -> None:
        self.run: Run = make_run(name="demo", kind="outside", status="running", **run)
        self.http = Client()
        self.token = f"Bearer {make_token('env', 'trainer', 'read', run=self.run)[1]}"
        self.post("/register", REGISTRATION)
        self.batch()
        self.env_id = self.post("/register-env", ENVIRONMENT)["env_id"]

    def post(self, path: str, content: Any) -> Any:
        answer = self.http.post(
            f"/atropos/demo{path}",
            data=body(content),
            content_type="application/json",
            headers={"Authorization": self.token},
        )
        assert answer.status_code == 200, answer.content
        return answer.json()

    def push(self, *groups: dict[str, Any]) -> list[int]:
        before = set(TrajectoryGroup.objects.values_list("id", flat=True))
        self.post("/scored_data_list", list(groups))
        return sorted(set(TrajectoryGroup.objects.values_list("id", flat=True)) - before)

    def digest(self) -> int:
        return digest_groups(now=NOON, seconds=60)

    def batch(self) -> None:
        answer = self.http.get("/atropos/demo/batch", headers={"Authorization": self.token})
        assert b"".join(answer)

    def get(self, path: str = "", **query: Any) -> Any:
        answer = self.http.get(
            f"/api/v1/runs/demo/groups{path}", query, headers={"Authorization": self.token}
        )
        assert answer.status_code == 200, answer.content
        return answer.json()

    def ids(self, **query: Any) -> list[int]:
        return [row["id"] for row in self.get(**query)["results"]]

    def refused(self, path: str = "", **query: Any) -> tuple[int, str]:
        answer = self.http.get(
            f"/api/v1/runs/demo/groups{path}", query, headers={"Authorization": self.token}
        )
        errors = answer.json().get("errors") or [{"field": ""}]
        return answer.status_code, errors[0]["field"]


@pytest.fixture
def server() -> Server:
    return Server()


def scored(*scores: float, mark: int = 1, **fields: Any) -> dict[str, Any]:
    rows = [[mark, 2, 3 + place] for place in range(len(scores))]
    return {"tokens": rows, "masks": rows, "scores": list(scores), **fields}


def user_messages(*texts: str) -> list[list[dict[str, str]]]:
    return [[{"role": "user", "content": text}] for text in texts]


def test_groups_are_listed_newest_first_a_page_at_a_time(server: Server) -> None:
    ids = server.push(*(scored(0.0, 1.0, mark=mark) for mark in range(5)))

    first = server.get(limit=2)
    second = server.get(limit=2, cursor=first["next"])
    third = server.get(limit=2, cursor=second["next"])

    pages = [[row["id"] for row in page["results"]] for page in (first, second, third)]
    assert pages == [ids[:2:-1], ids[2:0:-1], ids[:1]]
    assert (third["next"], third["is_partial"]) == (None, False)


def test_a_list_starts_next_to_a_group_in_both_directions(server: Server) -> None:
    ids = server.push(*(scored(0.0, 1.0, mark=mark) for mark in range(5)))

    assert server.ids(from_group=ids[2], limit=1) == [ids[1]]
    back = server.get(from_group=ids[2], limit=1, backward=1)
    further = server.get(from_group=ids[2], limit=1, backward=1, cursor=back["next"])
    assert [row["id"] for row in back["results"] + further["results"]] == [ids[3], ids[4]]
    assert further["next"] is None


def test_a_new_group_is_listed_with_its_texts_and_scores(server: Server) -> None:
    talk = [
        {"role": "user", "content": "What is 2 + 2?"},
        {"role": "assistant", "content": "<think>two and two</think>It is 4."},
    ]
    (pushed,) = server.push(
        scored(0.25, 0.75, messages=[talk, talk], lesson="sums", is_truncated=[True, False])
    )

    (before,) = server.get()["results"]
    assert (before["excerpt"], before["answer"]) == ("What is 2 + 2?", "It is 4.")
    assert (before["is_digested"], before["scores"]) == (True, [0.25, 0.75])
    assert (before["lesson"], before["flags"]) == ("sums", ["truncated"])
    assert server.get(f"/{pushed}")["group"] == before
    newest = newest_part(server.run.pk)
    assert newest is not None
    assert newest.groups[0].answer == "It is 4."
    # Lists and searches by these values use the stored digest.
    assert server.get("/facets")["undigested"] == 1

    assert server.digest() == 1
    (after,) = server.get()["results"]
    assert after == before
    assert server.get("/facets")["undigested"] == 0
    assert server.digest() == 0
    assert DigestCursor.objects.get().accepted == 1


def test_groups_beyond_the_bytes_of_a_request_wait_for_their_digest(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = server.push(*(scored(0.0, 1.0, mark=mark) for mark in range(2)))
    size = TrajectoryGroup.objects.get(pk=new).size_bytes
    monkeypatch.setattr(group_contents, "DIGESTED_BYTES", size + 1)

    newest, oldest = server.get()["results"]

    assert [(row["id"], row["is_digested"]) for row in (newest, oldest)] == [
        (new, True),
        (old, False),
    ]
    assert (oldest["scores"], oldest["score_mean"]) == ([], 0.5)


@pytest.mark.parametrize(
    ("messages", "answer"),
    [
        ([], ""),
        ([{"role": "user", "content": "only a question"}], ""),
        ([{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}], "b"),
        ([{"role": "assistant", "content": "a"}, {"role": "user", "content": "more?"}], "a"),
        (
            [
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"function": {"name": "look", "arguments": "{}"}}],
                }
            ],
            "look {}",
        ),
        ([{"role": "assistant", "content": "x" * 5000}], "x" * 240),
        ([{"role": "assistant", "content": "a\x00b"}], "a\ufffdb"),
        ([{"role": "assistant", "content": {"a": 1}}], ""),
        ([{"role": "assistant", "content": "<think>cut"}], ""),
    ],
)
def test_the_answer_in_a_list_is_the_last_text_of_the_policy(
    server: Server, messages: list[Any], answer: str
) -> None:
    server.push(scored(0.0, 1.0, messages=[messages, []]))

    (row,) = server.get()["results"]
    server.digest()

    assert row["answer"] == answer
    assert server.get()["results"][0]["answer"] == answer


def turns(number: int, word: str) -> list[dict[str, Any]]:
    """Return many turns, of which the 77th has a word."""
    return [
        {"role": ("user", "assistant")[turn % 2], "content": f"turn {turn} " + "talk " * 30}
        if turn != 77
        else {"role": "assistant", "content": f"a {word} in {number}"}
        for turn in range(100)
    ]


def test_a_search_finds_words_of_every_answer_turn_and_call(server: Server) -> None:
    answers = [
        [{"role": "assistant", "content": f"answer {place} " + "so " * 700 + f"boxed{place}"}]
        for place in range(16)
    ]
    call = {"name": "get_weather", "arguments": json.dumps({"city": "Reykjavik"})}
    called = [{"role": "assistant", "content": "", "tool_calls": [{"function": call}]}]
    result = [{"role": "tool", "content": "minus seven"}]
    wide = group(sequences=16, scores=[0.0] * 16, messages=answers)
    ids = server.push(
        wide,
        scored(0.0, 1.0, messages=[turns(0, "xylophone"), turns(1, "glockenspiel")]),
        scored(0.0, 1.0, messages=[called + result, called]),
        scored(0.0, 1.0, messages=[[{"role": "user", "content": "x " * 100_000}], []]),
    )
    server.digest()

    words = ["boxed0", "boxed9", "boxed15", "xylophone", "glockenspiel", "get_weather", "reykjavik"]
    found = [server.ids(q=word) for word in [*words, "seven", "marimba"]]

    assert found == [*[ids[:1]] * 3, *[ids[1:2]] * 2, *[ids[2:3]] * 3, []]
    assert server.get("/facets")["partly_searchable"] == 1


def test_words_are_searched_in_messages_of_this_run_only(server: Server) -> None:
    hit, _ = server.push(
        scored(0.0, 1.0, messages=user_messages("the harmonic oscillator", "x")),
        scored(0.0, 1.0, messages=user_messages("a pendulum", "x")),
    )
    other = make_run(name="other", kind="outside", status="running")
    elsewhere = TrajectoryGroup.objects.get(pk=hit)
    server.digest()
    elsewhere.pk, elsewhere.run = None, other
    elsewhere.save()
    GroupDigest.objects.create(
        group=elsewhere, run=other, words="'oscillator':1", score_mean=0.5, longest_tokens=3
    )

    assert server.ids(q="oscillator harmonic") == [hit]
    assert server.ids(q='"harmonic oscillator"') == [hit]
    assert server.ids(q="oscillator -harmonic") == []
    assert server.ids(q="'; DROP TABLE buffer_groupdigest; --") == []
    assert server.ids(q="oscillator", sort="-score") == [hit]


def test_each_facet_narrows_the_list(server: Server) -> None:
    low, high, flat, twin = server.push(
        scored(0.0, 0.2, env_id=server.env_id),
        scored(0.8, 1.0),
        scored(0.5, 0.5, lesson="sort", worker="w0@a"),
        group(sequences=2, tokens=5) | {"scores": [0.0, 1.0], "is_truncated": [True, False]},
    )
    TrajectoryGroup.objects.filter(pk=low).update(state="dropped", drop_reason="stale_age")
    TrajectoryGroup.objects.filter(pk=high).update(epoch=1, policy_step=7)
    server.digest()

    assert server.ids(env=server.env_id) == [low]
    assert server.ids(env="none") == [twin, flat, high]
    assert server.ids(lesson="sort") == [flat]
    assert server.ids(worker="w0@a") == [flat]
    assert server.ids(state="dropped") == [low]
    assert server.ids(state=["dropped", "queued"]) == [twin, flat, high, low]
    assert server.ids(reason="stale_age") == [low]
    assert server.ids(version_min=7, version_max=7) == [high]
    assert server.ids(score_min=0.6) == [high]
    assert server.ids(score_max=0.1) == [low]
    assert server.ids(length_min=5) == [twin]
    assert server.ids(flag="zero_variance") == [flat]
    assert server.ids(flag="duplicate") == [twin]
    assert server.ids(flag="truncated") == [twin]
    assert server.ids(flag=["truncated", "duplicate"]) == [twin]
    assert server.ids(flag="stale") == [low]
    assert server.ids(flag="quarantined") == []
    assert server.ids(env="none", score_min=0.6, state="queued") == [high]


def test_lists_are_sorted_by_score_and_length_across_pages(server: Server) -> None:
    long = group(sequences=1, tokens=9) | {"scores": [0.5]}
    one, two, three = server.push(scored(0.1), scored(0.9), long)
    server.digest()

    assert server.ids(sort="-score") == [two, three, one]
    assert server.ids(sort="score") == [one, three, two]
    assert server.ids(sort="-length")[0] == three
    page = server.get(sort="-score", limit=1)
    assert server.ids(sort="-score", cursor=page["next"]) == [three, one]
    assert server.ids(sort="-score", score_max=0.5) == [three, one]
    assert server.ids(sort="-score", from_group=one, backward=1) == [three, two]


def test_groups_are_found_by_the_batch_that_served_them(server: Server) -> None:
    ids = server.push(*(scored(0.0, 1.0, mark=mark) for mark in range(4)))
    server.digest()
    server.batch()
    (served,) = {row["batch"] for row in server.get(step_min=1, step_max=1)["results"]}

    assert server.ids(batch=served) == ids[1::-1]
    assert server.ids(batch=served, sort="-score") == ids[1::-1]
    assert server.ids(step_min=1) == ids[1::-1]
    assert server.ids(step_min=2) == []
    detail = server.get(f"/{ids[0]}")
    times = {"leased_at": None, "lease_expires_at": None, "delivered_at": None}
    assert detail["batch"]["leased_at"] <= detail["batch"]["lease_expires_at"]
    assert detail["batch"] | times == times | {
        "id": served,
        "step": 1,
        "state": "leased",
        "trainer": detail["batch"]["trainer"],
        "policy_step": -2,
        "epoch": 1,
        "staleness": detail["batch"]["staleness"],
        "lease_expiries": 0,
        "settled_at": None,
    }
    assert (detail["newer"], detail["older"]) == (ids[1], None)
    trainer = detail["batch"]["trainer"]
    assert detail["outcome"] == f"Leased to {trainer} in batch 1, not acknowledged yet."
    # The next request acknowledges the batch.
    server.batch()
    served = server.get(f"/{ids[0]}")["outcome"]
    assert served.startswith(f"Trained on in batch 1 by {trainer}"), served


def test_a_group_of_equal_scores_has_no_gradient(server: Server) -> None:
    (group_id,) = server.push(scored(0.5, 0.5))
    queued = "Queued: no trainer has leased it yet."
    assert server.get(f"/{group_id}")["outcome"] == queued
    server.digest()

    assert server.get(f"/{group_id}")["outcome"] == (
        f"{queued} All 2 scores are equal: its advantages are 0, and it gives no gradient."
    )


def test_groups_dropped_at_ingest_are_listed_without_content(server: Server) -> None:
    Run.objects.filter(pk=server.run.pk).update(drop_zero_variance=True)
    stored, dropped = server.push(scored(0.0, 1.0), scored(0.5, 0.5))

    assert server.ids() == [dropped, stored]
    detail = server.get(f"/{dropped}")
    row = detail["group"]
    assert (row["state"], row["drop_reason"], row["has_bytes"]) == (
        *("dropped", "zero_variance"),
        False,
    )
    assert detail["outcome"] == "Dropped on arrival: with equal scores, so without a gradient."
    assert server.refused(f"/{dropped}/sequences")[0] == 410


def test_facets_count_the_groups_of_each_choice(server: Server) -> None:
    server.push(
        scored(0.0, 0.2, lesson="sort", env_id=server.env_id),
        scored(0.8, 1.0, lesson="sort"),
        scored(0.5, 0.5, lesson="add"),
    )
    server.digest()

    response = server.get("/facets", lesson="sort")

    assert (response["examined"], response["matching"], response["total"]) == (3, 2, 3)
    count = {
        name: {value["value"]: value["groups"] for value in values}
        for name, values in response["facets"].items()
    }
    assert count["lesson"] == {"sort": 2, "add": 1}
    assert count["env"] == {"none": 1, str(server.env_id): 1}
    assert count["state"] == {"queued": 2}
    assert count["flag"] == {}
    assert [facet["label"] for facet in response["facets"]["env"]] == ["no environment", "math_0"]
    scores = response["histograms"]["score"]
    assert (scores["least"], scores["most"], sum(scores["counts"])) == (0.1, 0.9, 2)
    assert scores["counts"][0] == scores["counts"][-1] == 1
    versions = response["histograms"]["version"]
    assert (versions["least"], sum(versions["counts"])) == (versions["most"], 2)
    assert "step" not in response["histograms"], "no batch holds any of them"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"state": "eaten"}, "state"),
        ({"flag": "nice"}, "flag"),
        ({"env": "-3"}, "env"),
        ({"score_min": "nan"}, "score_min"),
        ({"length_min": "9", "length_max": "3"}, "length_min"),
        ({"sort": "luck"}, "sort"),
        ({"batch": "7"}, "batch"),
        ({"cursor": "1~2"}, "cursor"),
        ({"cursor": "7", "sort": "-score"}, "cursor"),
        ({"cursor": "--e~2", "sort": "-score"}, "cursor"),
        ({"q": "x" * 201}, "q"),
        ({"q": ["one", "two"]}, "q"),
        ({"lesson": "a\x00b"}, "lesson"),
        ({"limit": "0"}, "limit"),
    ],
)
def test_an_invalid_filter_is_refused_with_its_field(
    server: Server, query: dict[str, Any], field: str
) -> None:
    assert server.refused(**query) == (400, field)


def test_a_group_of_another_run_is_not_found(server: Server) -> None:
    (mine,) = server.push(scored(0.0, 1.0))
    other = make_run(name="other", kind="outside", status="running")
    TrajectoryGroup.objects.filter(pk=mine).update(run=other)

    for path in ("", "/sequences", "/content", "/sequences/0", "/sequences/0/messages"):
        assert server.refused(f"/{mine}{path}")[0] == 404


def test_an_unreadable_group_does_not_affect_the_others(server: Server) -> None:
    Run.objects.filter(pk=server.run.pk).update(lenient=True)
    bad = scored(0.0, 1.0) | {"tokens": [[1 << 70, 2, 3], [1, 2, 4]]}
    ids = server.push(bad, scored(0.0, 1.0))

    assert server.digest() == 2
    assert list(GroupDigest.objects.values_list("group_id", flat=True)) == ids[1:]
    assert server.refused(f"/{ids[0]}/sequences")[0] == 422


def test_the_live_part_equals_the_list_of_the_newest_groups(server: Server) -> None:
    ids = server.push(*(scored(0.0, float(number)) for number in range(7)))
    server.digest()

    part = newest_part(server.run.pk)

    assert part is not None
    assert [group.id for group in part.groups] == ids[:1:-1]
    assert json.loads(msgspec.json.encode(part.groups)) == server.get(limit=5)["results"]
    assert part.fragments == []
    assert newest_part(0) is None
