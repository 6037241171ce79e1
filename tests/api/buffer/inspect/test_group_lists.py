"""Lists, filters, search and details of groups."""

import json
from typing import Any

import msgspec
import pytest
from django.test import Client

from buffer.inspect.api.fragments import newest_part
from buffer.inspect.models import DigestCursor, GroupDigest
from buffer.inspect.queries import group_contents
from buffer.inspect.rules.sample_filter import NEWEST, SORTS, SampleKind
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

    def ask(self, path: str, query: dict[str, Any]) -> Any:
        url = f"/api/v1/runs/demo/groups{path}" if path else "/api/v1/trajectories"
        query = query if path else {"run": "demo"} | query
        return self.http.get(url, query, headers={"Authorization": self.token})

    def get(self, path: str = "", **query: Any) -> Any:
        answer = self.ask(path, query)
        assert answer.status_code == 200, answer.content
        return answer.json()

    def ids(self, q: str = "", **query: Any) -> list[int]:
        return [int(row["id"]) for row in self.get(q=q, **query)["results"]]

    def refused(self, path: str = "", **query: Any) -> tuple[int, str]:
        answer = self.ask(path, query)
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

    pages = [[int(row["id"]) for row in page["results"]] for page in (first, second, third)]
    assert pages == [ids[:2:-1], ids[2:0:-1], ids[:1]]
    assert (third["next"], third["is_partial"]) == (None, False)


def test_a_list_starts_next_to_a_group_in_both_directions(server: Server) -> None:
    ids = server.push(*(scored(0.0, 1.0, mark=mark) for mark in range(5)))

    assert server.ids(from_group=ids[2], limit=1) == [ids[1]]
    back = server.get(from_group=ids[2], limit=1, backward=1)
    further = server.get(from_group=ids[2], limit=1, backward=1, cursor=back["next"])
    assert [int(row["id"]) for row in back["results"] + further["results"]] == [ids[3], ids[4]]
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
    assert (before["is_indexed"], before["scores"]) == (True, [0.25, 0.75])
    assert (before["lesson"], before["flags"]) == ("sums", ["truncated"])
    detail = server.get(f"/{pushed}")["group"]
    shared = ("scores", "excerpt", "answer", "lesson", "flags", "state", "mark")
    assert {name: detail[name] for name in shared} == {name: before[name] for name in shared}
    newest = newest_part(server.run.pk)
    assert newest is not None
    assert newest.samples[0].answer == "It is 4."
    # Lists and searches by these values use the stored digest.
    assert server.get()["unindexed"] == 1

    assert server.digest() == 1
    (after,) = server.get()["results"]
    assert after == before
    assert server.get()["unindexed"] == 0
    assert server.digest() == 0
    assert DigestCursor.objects.get().accepted == 1


def test_groups_beyond_the_bytes_of_a_request_wait_for_their_digest(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = server.push(*(scored(0.0, 1.0, mark=mark) for mark in range(2)))
    size = TrajectoryGroup.objects.get(pk=new).size_bytes
    monkeypatch.setattr(group_contents, "DIGESTED_BYTES", size + 1)

    newest, oldest = server.get()["results"]

    assert [(int(row["id"]), row["is_indexed"]) for row in (newest, oldest)] == [
        (new, True),
        (old, False),
    ]
    assert (oldest["scores"], oldest["score"]) == ([], 0.5)


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
        ([{"role": "assistant", "content": "x" * 5000}], "…" + "x" * 239),
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
    assert server.get(q="boxed0")["partly_searched"] == 1


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
    assert server.ids(q='\'; DROP TABLE buffer_groupdigest; "--"') == []
    assert server.ids(q="oscillator", sort="-score") == [hit]


Groups = tuple[int, int, int, int]


@pytest.fixture
def four(server: Server) -> Groups:
    """Groups: dropped with low scores, of a later version with high ones, flat, of twins."""
    low, high, flat, twin = server.push(
        scored(0.0, 0.2, env_id=server.env_id),
        scored(0.8, 1.0, messages=user_messages("which planet", "x")),
        scored(0.5, 0.5, lesson="sort", worker="w0@a"),
        group(sequences=2, tokens=5) | {"scores": [0.0, 1.0], "is_truncated": [True, False]},
    )
    TrajectoryGroup.objects.filter(pk=low).update(
        state="dropped", drop_reason="stale_age", received_at=NOON
    )
    TrajectoryGroup.objects.filter(pk=high).update(epoch=1, policy_step=7)
    server.digest()
    return low, high, flat, twin


LOW, HIGH, FLAT, TWIN = range(4)


@pytest.mark.parametrize(
    ("q", "places"),
    [
        ("", [TWIN, FLAT, HIGH, LOW]),
        ("env:math_0", [LOW]),
        ("-env:math_0", [TWIN, FLAT, HIGH]),
        ("env~MAT", [LOW]),
        ("env:sort", [FLAT]),
        ("env:sort,math_0", [FLAT, LOW]),
        ("worker:w0@a", [FLAT]),
        ("worker~w0", [FLAT]),
        ("state:dropped", [LOW]),
        ("state:dropped,queued", [TWIN, FLAT, HIGH, LOW]),
        ("-state:dropped", [TWIN, FLAT, HIGH]),
        ("reason:stale_age", [LOW]),
        ("version:7", [HIGH]),
        ("version:>=7", [HIGH]),
        ("score>0.6", [HIGH]),
        ("score:<=0.1", [LOW]),
        ("score>=0.1 score<0.5", [LOW]),
        ("score:0.5,0.9", [TWIN, FLAT, HIGH]),
        ("length>=5", [TWIN]),
        ("is:zero_variance", [FLAT]),
        ("is:duplicate", [TWIN]),
        ("is:truncated is:duplicate", [TWIN]),
        ("is:truncated,zero_variance", [TWIN, FLAT]),
        ("-is:truncated", [FLAT, HIGH, LOW]),
        ("is:stale", [LOW]),
        ("is:quarantined", []),
        ("is:noted", []),
        ("tag:hack", []),
        ("tag~h", []),
        ("step:1", []),
        ("arrived>1d", [LOW]),
        ("arrived<1d", [TWIN, FLAT, HIGH]),
        ("arrived:<2026-03-02", [LOW]),
        ("prompt:01890a5dac96774bbcceb302099a8057", []),
        ("batch:01890a5d-ac96-774b-bcce-b302099a8057", []),
        ("planet", [HIGH]),
        ('"which planet"', [HIGH]),
        ("which -planet", []),
        ("planet score>0.95", []),
        ("run:demo -env:sort state:queued", [TWIN, HIGH]),
        ("run:elsewhere", []),
        ("-run:demo", []),
        ("run~em", [TWIN, FLAT, HIGH, LOW]),
        ("project:none", []),
    ],
    ids=str,
)
def test_each_qualifier_narrows_the_list(
    server: Server, four: Groups, q: str, places: list[int]
) -> None:
    assert server.ids(q) == [four[place] for place in places]


@pytest.mark.parametrize("sort", [sort for sort in SORTS[SampleKind.GROUP] if sort != NEWEST])
@pytest.mark.parametrize("q", ["", "state:queued"])
def test_pages_by_each_column_contain_every_group_once(
    server: Server, four: Groups, sort: str, q: str
) -> None:
    whole = server.ids(q, sort=sort)
    rows, cursor = [], ""
    for _ in whole:
        page = server.get(q=q, sort=sort, limit=1, cursor=cursor)
        rows += [int(row["id"]) for row in page["results"]]
        cursor = page["next"]

    assert rows == whole
    assert sorted(whole) == sorted(four[q != "" :])


def test_a_dropped_group_has_its_cause_in_words(server: Server, four: Groups) -> None:
    (row,) = server.get(q="state:dropped")["results"]

    assert row["why"] == "queued for longer than max_age_seconds"


def test_values_of_a_qualifier_are_the_most_used_first(server: Server, four: Groups) -> None:
    def values(of: str, part: str = "") -> list[tuple[str, int]]:
        answer = server.http.get(
            "/api/v1/trajectories/filter/values",
            {"of": of, "part": part, "run": "demo"},
            headers={"Authorization": server.token},
        )
        assert answer.status_code == 200, answer.content
        return [(row["value"], row["count"]) for row in answer.json()["results"]]

    assert values("env") == [("math_0", 1), ("sort", 1)]
    assert values("env", "SO") == [("sort", 1)]
    assert ("w0@a", 1) in values("worker")
    assert values("run") == [("demo", 1)]
    assert values("project") == []


def test_lists_are_sorted_by_score_and_length_across_pages(server: Server) -> None:
    long = group(sequences=1, tokens=9) | {"scores": [0.5]}
    one, two, three = server.push(scored(0.1), scored(0.9), long)
    server.digest()

    assert server.ids(sort="-score") == [two, three, one]
    assert server.ids(sort="score") == [one, three, two]
    assert server.ids(sort="-length")[0] == three
    page = server.get(sort="-score", limit=1)
    assert server.ids(sort="-score", cursor=page["next"]) == [three, one]
    assert server.ids("score<=0.5", sort="-score") == [three, one]
    assert server.ids(sort="-score", from_group=one, backward=1) == [three, two]


def test_groups_are_found_by_the_batch_that_served_them(server: Server) -> None:
    ids = server.push(*(scored(0.0, 1.0, mark=mark) for mark in range(4)))
    server.digest()
    server.batch()
    (served,) = {server.get(f"/{one}")["group"]["batch"] for one in server.ids("step:1")}

    assert server.ids(f"batch:{served}") == ids[1::-1]
    assert server.ids(f"batch:{served}", sort="-score") == ids[1::-1]
    assert server.ids("step>=1") == ids[1::-1]
    assert server.ids("step>=2") == []
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


@pytest.mark.parametrize(
    ("query", "field", "part"),
    [
        ({"q": "state:eaten"}, "q", "state must be one of waiting, queued"),
        ({"q": "is:nice"}, "q", "is must be one of truncated"),
        ({"q": "colour:red"}, "q", "unknown qualifier 'colour'; known: run, project, env, score"),
        ({"q": "slot:w0"}, "q", "unknown qualifier 'slot'"),
        ({"q": "score>nan"}, "q", "'nan' is not a number"),
        ({"q": "score~1"}, "q", "score takes : = > >= < <=, not ~"),
        ({"q": 'env:"a'}, "q", "a quote is not closed"),
        ({"q": "env:"}, "q", "env needs a value, as in env:math"),
        ({"q": "batch:7"}, "q", "'7' is not the id of a batch"),
        ({"q": "prompt:x"}, "q", "'x' is not the id of a prompt"),
        ({"q": "arrived<soon"}, "q", "neither an age"),
        ({"q": "x" * 1001}, "q", "1001 characters, at most 1000 allowed"),
        ({"q": "lesson a\x00b"}, "q", "must not contain NUL"),
        ({"kind": "episode", "q": "words"}, "q", "episodes have no text to search for 'words'"),
        ({"kind": "fragment", "q": "score>1"}, "q", "unknown qualifier 'score'"),
        ({"kind": "episode", "sort": "state"}, "sort", "'state' is not one of"),
        ({"kind": "run"}, "kind", "'run' is not one of group, episode, fragment"),
        ({"sort": "luck"}, "sort", "'luck' is not one of -arrived"),
        ({"cursor": "1~2"}, "cursor", ""),
        ({"limit": "0"}, "limit", ""),
        ({"from_group": "5", "run": ""}, "from_group", "needs one run"),
        ({"score_min": "1"}, "score_min", ""),
    ],
    ids=str,
)
def test_an_invalid_filter_is_refused_with_its_field(
    server: Server, query: dict[str, Any], field: str, part: str
) -> None:
    make_run(name="other", kind="outside")
    if "from_group" in query:
        server.token = f"Bearer {make_token('read')[1]}"
    answer = server.ask("", query)
    (error,) = answer.json()["errors"]

    assert (answer.status_code, error["field"]) == (400, field)
    assert part in error["message"]


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
    assert [int(row.id) for row in part.samples] == ids[:1:-1]
    assert json.loads(msgspec.json.encode(part.samples)) == server.get(limit=5)["results"]
    assert newest_part(0) is None
