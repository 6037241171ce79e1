"""Search for trajectories in all runs: filters, order, pages and permissions."""

from datetime import timedelta
from typing import Any, Final

import pytest
from django.test import Client

from buffer.inspect.models import GroupDigest
from buffer.inspect.rules.sample_filter import SORTS, SampleKind
from buffer.inspect.services import digest_groups
from buffer.items.models import TrajectoryGroup
from rollouts.control.models import EpisodeWindow
from runs.lifecycle.models import Run
from tests.api.rollouts.episodes.test_episode_distributions import report, write
from tests.buffer_factories import ENVIRONMENT, REGISTRATION, body
from tests.factories import NOON, bearer, make_project, make_run, make_user

pytestmark = pytest.mark.django_db(transaction=True)
PATH: Final = "/api/v1/trajectories"


class Search:
    """A viewer who searches the runs."""

    def __init__(self) -> None:
        self.http = Client()
        self.http.force_login(make_user())

    def page(self, **query: Any) -> Any:
        answer = self.http.get(PATH, query)
        assert answer.status_code == 200, answer.content
        return answer.json()

    def rows(self, **query: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.page(**query)["results"]
        return rows

    def texts(self, **query: Any) -> list[str]:
        return [row["excerpt"] for row in self.rows(**query)]

    def returns(self, **query: Any) -> list[float]:
        return [row["score"] for row in self.rows(kind="episode", **query)]

    def whole(self, **query: Any) -> list[dict[str, Any]]:
        """Return the rows of all pages."""
        page = self.page(**query)
        rows = page["results"]
        while page["next"]:
            page = self.page(**query, cursor=page["next"])
            rows += page["results"]
        return list(rows)

    def refused(self, **query: Any) -> tuple[int, str]:
        answer = self.http.get(PATH, query)
        errors = answer.json().get("errors") or [{"field": ""}]
        return answer.status_code, errors[0]["field"]


@pytest.fixture
def search() -> Search:
    return Search()


def conversation(question: str, *scores: float) -> dict[str, Any]:
    rows = [[1, 2, 3 + place] for place in range(len(scores))]
    messages = [
        [{"role": "user", "content": question}, {"role": "assistant", "content": f"answer {place}"}]
        for place in range(len(scores))
    ]
    return {"tokens": rows, "masks": rows, "scores": list(scores), "messages": messages}


def outside(name: str, *groups: dict[str, Any], environment: str = "math", **fields: Any) -> Run:
    """Return an outside run whose environment pushed groups."""
    run = make_run(name=name, kind="outside", **fields)
    http = Client(headers=bearer("trainer", "env", run=run))

    def post(path: str, content: Any) -> Any:
        answer = http.post(
            f"/atropos/{name}{path}", data=body(content), content_type="application/json"
        )
        assert answer.status_code == 200, answer.content
        return answer.json()

    post("/register", REGISTRATION)
    assert b"".join(http.get(f"/atropos/{name}/batch"))
    env_id = post("/register-env", ENVIRONMENT | {"desired_name": environment})["env_id"]
    for group in groups:
        post("/scored_data", group | {"env_id": env_id})
    digest_groups(now=NOON, seconds=60)
    return run


@pytest.fixture
def two_runs() -> list[Run]:
    project = make_project(name="sums")
    return [
        outside(
            "first",
            conversation("How many apples?", 0.0, 1.0),
            conversation("How many pears?", 0.0, 0.0),
            project=project,
        ),
        outside("second", conversation("Which apples are red?", 1.0, 1.0), environment="colours"),
    ]


@pytest.fixture
def fleets() -> list[Run]:
    """Two fleets with episodes of returns 5, 1, 3 and 2, 4, and an evaluation."""
    runs = [make_run(name=name) for name in ("pole", "maze")]
    ids = {"incarnation": "a", "slots": [0, 1, 0, 1, 0, 0], "numbers": [1, 1, 2, 1, 1, 1]}
    write(report(runs[0], 5.0, 1.0, 3.0, **ids))
    ids = {"incarnation": "b", "slots": [3, 2, 3, 2, 2], "numbers": [8, 9, 8, 9, 9]}
    write(report(runs[1], 2.0, 4.0, environment="maze", at=NOON + timedelta(hours=1), **ids))
    write(report(runs[1], 9.0, mode="eval", incarnation="b", slots=[1] * 4, numbers=[1] * 4))
    return runs


def test_groups_of_all_runs_are_listed_newest_first(search: Search, two_runs: list[Run]) -> None:
    page = search.page()

    assert [row["excerpt"] for row in page["results"]] == [
        "Which apples are red?",
        "How many pears?",
        "How many apples?",
    ]
    newest = page["results"][0]
    group = TrajectoryGroup.objects.get(run=two_runs[1])
    assert newest == {
        "kind": "group",
        "id": str(group.pk),
        "run": "second",
        "run_uid": two_runs[1].uid,
        "project": None,
        "environment": newest["environment"],
        "lesson": "",
        "score": 1.0,
        "score_min": 1.0,
        "score_max": 1.0,
        "scores": [1.0, 1.0],
        "sequences": 2,
        "correct": None,
        "advantages": [],
        "columns": {},
        "length": 3,
        "worker": group.producer,
        "epoch": group.epoch,
        "policy_step": group.policy_step,
        "step": None,
        "state": "queued",
        "why": "",
        "flags": ["zero_variance"],
        "at": newest["at"],
        "slot": "",
        "number": None,
        "excerpt": "Which apples are red?",
        "answer": "answer 0",
        "is_indexed": True,
        "mark": None,
    }
    assert newest["environment"].startswith("colours")
    assert (page["next"], page["is_partial"], page["runs"], page["runs_left_out"]) == (
        None,
        False,
        2,
        0,
    )


def test_new_groups_have_their_texts_before_their_digest(
    search: Search, two_runs: list[Run]
) -> None:
    before = search.rows()
    GroupDigest.objects.filter(run=two_runs[0]).delete()

    assert search.rows() == before


def test_words_of_messages_are_found_in_all_runs(search: Search, two_runs: list[Run]) -> None:
    assert search.texts(q="apples") == ["Which apples are red?", "How many apples?"]
    assert search.texts(q='"how many" -pears') == ["How many apples?"]
    assert search.texts(q="apples", sort="score") == ["How many apples?", "Which apples are red?"]
    assert search.texts(q="nothing") == []


def test_groups_are_filtered_by_run_project_environment_and_score(
    search: Search, two_runs: list[Run]
) -> None:
    pears, apples = "How many pears?", "How many apples?"

    assert search.texts(run="first") == search.texts(q="run:first") == [pears, apples]
    assert search.texts(q="project:sums") == [pears, apples]
    assert search.texts(run="second", q="project:sums") == []
    assert search.texts(q="env~colours") == ["Which apples are red?"]
    assert search.texts(q="score>=0.1 score<=0.9") == [apples]
    assert search.texts(q="score<=0.5", sort="-score") == [apples, pears]


def test_groups_are_filtered_by_time(search: Search, two_runs: list[Run]) -> None:
    old = TrajectoryGroup.objects.order_by("id").first()
    assert old
    TrajectoryGroup.objects.filter(pk=old.pk).update(received_at=NOON)

    assert search.texts(q="arrived<2026-03-02") == ["How many apples?"]
    assert len(search.texts(q="arrived>=2026-03-02")) == 2


def test_the_lowest_score_is_first_over_all_runs(search: Search, two_runs: list[Run]) -> None:
    assert [row["score"] for row in search.rows(sort="score")] == [0.0, 0.5, 1.0]
    assert [row["score"] for row in search.rows(sort="-score")] == [1.0, 0.5, 0.0]


@pytest.mark.parametrize("sort", SORTS[SampleKind.GROUP])
@pytest.mark.parametrize("extra", [{}, {"q": "how many"}, {"q": "env~math"}])
def test_pages_contain_every_group_once(
    search: Search, two_runs: list[Run], sort: str, extra: dict[str, str]
) -> None:
    whole = search.rows(sort=sort, **extra)

    assert search.whole(sort=sort, limit=1, **extra) == whole
    assert len(whole) == (2 if extra else 3)


def test_episodes_of_all_fleets_are_listed(search: Search, fleets: list[Run]) -> None:
    rows = search.rows(kind="episode")

    assert [row["id"] for row in rows] == [
        "w0-2@b/9",
        "w0-3@b/8",
        "w0-0@a/2",
        "w0-1@a/1",
        "w0-0@a/1",
    ]
    assert [row["run"] for row in rows] == ["maze"] * 2 + ["pole"] * 3
    assert (rows[0]["score"], rows[0]["length"], rows[0]["environment"]) == (4.0, 4, "maze")


def test_the_worst_episode_is_first_over_all_fleets(search: Search, fleets: list[Run]) -> None:
    assert search.returns(sort="score") == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert search.returns(sort="-score") == [5.0, 4.0, 3.0, 2.0, 1.0]
    assert search.returns(sort="score", limit=2) == [1.0, 2.0]


def test_episodes_are_filtered(search: Search, fleets: list[Run]) -> None:
    assert search.returns(q="env:maze", sort="score") == [2.0, 4.0]
    assert search.returns(q="run:pole", sort="score") == [1.0, 3.0, 5.0]
    assert search.returns(q="score>=2 score<=4", sort="-score") == [4.0, 3.0, 2.0]
    assert search.returns(q="arrived>=2026-03-01T12:30:00Z", sort="-score") == [4.0, 2.0]
    assert search.returns(q="run:maze,pole length>=4", sort="-score") == [5.0, 4.0]
    assert search.returns(q="-env:maze version:7 worker:w0", sort="score") == [1.0, 3.0, 5.0]
    assert search.returns(q="score:2,4 -length:4") == [2.0]


@pytest.mark.parametrize("sort", SORTS[SampleKind.EPISODE])
def test_pages_contain_every_episode_once(search: Search, fleets: list[Run], sort: str) -> None:
    whole = search.rows(kind="episode", sort=sort)

    assert len(whole) == 5
    for limit in (1, 2, 3):
        assert search.whole(kind="episode", sort=sort, limit=limit) == whole


def test_the_lowest_episode_of_a_report_with_many_is_found(search: Search) -> None:
    ids = {"incarnation": "a", "slots": [0, 0, 7, 8, 0], "numbers": [5, 6, 1, 2, 5]}
    write(
        report(
            make_run(name="pole"),
            *(3.0, 4.0),
            **ids,
            count=200,
            return_min=-1.0,
            return_max=9.0,
            length_max=3,
        )
    )
    rows = search.rows(kind="episode", sort="score")

    assert [(row["id"], row["score"], row["length"]) for row in rows] == [
        ("w0-7@a/1", -1.0, None),
        ("w0-0@a/5", 3.0, 3),
        ("w0-0@a/6", 4.0, 4),
        ("w0-8@a/2", 9.0, None),
    ]


def test_episodes_without_an_id_are_left_out(search: Search) -> None:
    write(report(make_run(name="pole"), 3.0))

    assert search.returns() == []
    assert EpisodeWindow.objects.count() == 1


def test_an_archived_run_is_searched_by_its_address_or_filter(
    search: Search, two_runs: list[Run]
) -> None:
    Run.objects.filter(pk=two_runs[0].pk).update(archived_at=NOON, status="completed")
    address = f"first--{two_runs[0].pk}"

    assert search.texts() == ["Which apples are red?"]
    assert [row["run"] for row in search.rows(run=address)] == [address] * 2
    assert [row["run"] for row in search.rows(q=f"run:{address}")] == [address] * 2
    assert search.rows(q="run~first") == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"sort": "worst"}, (400, "sort")),
        ({"runs": "first"}, (400, "runs")),
        ({"run": "a\x00"}, (400, "run")),
        ({"run": "absent"}, (404, "")),
        ({"limit": "0"}, (400, "limit")),
        ({"limit": "201"}, (400, "limit")),
        ({"cursor": "nonsense"}, (400, "cursor")),
    ],
)
def test_bad_input_names_the_field(
    search: Search, query: dict[str, str], expected: tuple[int, str]
) -> None:
    assert search.refused(**query) == expected


def test_a_cursor_is_valid_for_its_filter_only(search: Search, two_runs: list[Run]) -> None:
    cursor = search.page(limit=1)["next"]

    assert search.refused(cursor=cursor, limit=1, sort="-score") == (400, "cursor")


def test_a_token_of_one_run_finds_trajectories_of_this_run_only(
    search: Search, two_runs: list[Run]
) -> None:
    bound = Client(headers=bearer("read", run=two_runs[1]))

    answer = bound.get(PATH).json()
    assert {row["run"] for row in answer["results"]} == {"second"}
    assert answer["runs"] == 1
    assert bound.get(PATH, {"q": "how many"}).json()["results"] == []
    assert bound.get(PATH, {"q": "run:first"}).json()["results"] == []
    assert bound.get(PATH, {"run": "second"}).status_code == 200
    refused = bound.get(PATH, {"run": "first"})
    assert refused.status_code == 403
    assert "bound to run second" in refused.json()["detail"]


@pytest.mark.parametrize("scope", ["trainer", "env", "worker"])
def test_a_token_without_the_right_to_read_is_refused(two_runs: list[Run], scope: str) -> None:
    for run in (two_runs[0], None):
        assert Client(headers=bearer(scope, run=run)).get(PATH).status_code == 403
    assert Client().get(PATH).status_code in {401, 403}
