"""Metadata and overrides of groups as filters, sort orders and columns of the list of samples."""

from typing import Any

import pytest
from django.db import connection

from buffer.inspect.queries import sample_lists
from tests.api.buffer.inspect.test_group_lists import Server, scored

pytestmark = pytest.mark.django_db(transaction=True)

EASY, HARD, MIXED, OTHER, BARE = range(5)
GROUPS: tuple[dict[str, Any], ...] = (
    {"metadata": {"difficulty": 1, "topic": "long division"}, "group_overrides": {"level": "easy"}},
    {
        "metadata": {"difficulty": 4.5, "topic": "Sums", "shown": True},
        "group_overrides": {"level": "hard"},
    },
    {
        "metadata": [{"difficulty": 2}, {"difficulty": 9}],
        "overrides": [{"level": "easy"}, {"level": "hard"}],
    },
    {"metadata": {"difficulty": "4", "shown": False}},
    {},
)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def groups(server: Server) -> list[int]:
    ids = server.push(*(scored(0.0, 1.0, mark=mark, **one) for mark, one in enumerate(GROUPS)))
    server.digest()
    return ids


def found(server: Server, groups: list[int], q: str, **query: Any) -> list[int]:
    return [groups.index(group) for group in server.ids(q, **query)]


@pytest.mark.parametrize(
    ("q", "places"),
    [
        ("meta.difficulty:>3", [MIXED, HARD]),
        ("meta.difficulty>=4.5", [MIXED, HARD]),
        ("meta.difficulty:<2", [EASY]),
        ("meta.difficulty:1", [EASY]),
        ("meta.difficulty:1.0,9", [MIXED, EASY]),
        ("meta.difficulty:4", [OTHER]),
        ('meta.difficulty:"4"', [OTHER]),
        ("-meta.difficulty:>3", [BARE, OTHER, EASY]),
        ("override.level:easy", [MIXED, EASY]),
        ("override.level:easy override.level:hard", [MIXED]),
        ("override.level:easy,hard", [MIXED, HARD, EASY]),
        ("override.level:Easy", []),
        ("override.level~EAS", [MIXED, EASY]),
        ('meta.topic:"long division"', [EASY]),
        ("meta.topic~sum", [HARD]),
        ("meta.shown:true", [HARD]),
        ("meta.shown:false", [OTHER]),
        ("meta.other:1", []),
        ("meta.topic:>3", []),
        ("meta.difficulty:>3 score:<0.9 state:queued", [MIXED, HARD]),
        ("meta.it's:1", []),
    ],
    ids=str,
)
def test_facts_filter_the_list(
    server: Server, groups: list[int], q: str, places: list[int]
) -> None:
    assert found(server, groups, q) == places


@pytest.mark.parametrize(
    ("q", "position"),
    [
        ("meta:3", 1),
        ("score:>0 meta.:3", 10),
        ("meta.difficulty:>abc", 18),
        ("meta.difficulty:", 1),
        ("meta.difficulty:1,,2", 19),
        ('meta.topic:"a', 1),
        ("meta.difficulty>~3", 17),
    ],
    ids=str,
)
def test_an_invalid_fact_is_refused_with_its_position(
    server: Server, groups: list[int], q: str, position: int
) -> None:
    answer = server.ask("", {"q": q})

    assert answer.status_code == 400
    (error,) = answer.json()["errors"]
    assert error["field"] == "q"
    assert error["message"].startswith(f"at character {position}: ")


@pytest.mark.parametrize(
    ("sort", "places"),
    [
        # JSON values: lists, then numbers, then texts; groups without the fact are last.
        ("-meta.difficulty", [MIXED, HARD, EASY, OTHER, BARE]),
        ("meta.difficulty", [OTHER, EASY, HARD, MIXED, BARE]),
        ("-override.level", [MIXED, HARD, EASY, BARE, OTHER]),
        ("meta.other", [EASY, HARD, MIXED, OTHER, BARE]),
    ],
)
def test_lists_are_sorted_by_facts_a_page_at_a_time(
    server: Server, groups: list[int], sort: str, places: list[int]
) -> None:
    assert found(server, groups, "", sort=sort) == places

    paged, cursor = [], {}
    while True:
        page = server.get(sort=sort, limit=2, **cursor)
        paged += [groups.index(int(row["id"])) for row in page["results"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert paged == places
    beside = server.ids(sort=sort, limit=1, from_group=groups[places[2]])
    assert beside == [groups[places[3]]]


def test_facts_are_columns_also_of_groups_without_a_digest(
    server: Server, groups: list[int]
) -> None:
    (new,) = server.push(scored(0.0, 1.0, mark=9, metadata={"difficulty": 7}))

    rows = server.get(columns="meta.difficulty,override.level,meta.unknown")["results"]

    columns = {int(row["id"]): row["columns"] for row in rows}
    assert columns[new] == {"meta.difficulty": 7, "override.level": None, "meta.unknown": None}
    assert columns[groups[MIXED]]["override.level"] == ["easy", "hard"]
    assert columns[groups[BARE]]["meta.difficulty"] is None
    assert server.get()["results"][0]["columns"] == {}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"columns": "difficulty"}, "columns"),
        ({"columns": "meta."}, "columns"),
        ({"columns": ",".join(f"meta.{place}" for place in range(21))}, "columns"),
        ({"sort": "meta"}, "sort"),
        ({"sort": "-meta.a b"}, "sort"),
        ({"sort": "--meta.a"}, "sort"),
        ({"sort": "-meta.a", "kind": "fragment"}, "sort"),
    ],
    ids=str,
)
def test_invalid_columns_and_orders_are_refused_with_their_field(
    server: Server, groups: list[int], query: dict[str, str], field: str
) -> None:
    assert server.refused(**query) == (400, field)


def test_keys_and_their_values_are_offered_most_frequent_first(
    server: Server, groups: list[int]
) -> None:
    def asked(path: str, **query: str) -> Any:
        url = f"/api/v1/{path}"
        answer = server.http.get(
            url, {"run": "demo", **query}, headers={"Authorization": server.token}
        )
        assert answer.status_code == 200, answer.content
        return [(row["value"], row["count"]) for row in answer.json()["results"]]

    assert asked("trajectories/columns") == [
        ("meta.difficulty", 4),
        ("override.level", 3),
        ("meta.shown", 2),
        ("meta.topic", 2),
    ]
    assert asked("trajectories/filter/values", of="override.level") == [("easy", 2), ("hard", 2)]
    assert asked("trajectories/filter/values", of="meta.topic", part="DIV") == [
        ("long division", 1)
    ]
    assert asked("trajectories/filter/values", of="meta.unknown") == []
    refused = server.http.get(
        "/api/v1/trajectories/filter/values",
        {"of": "meta.a", "kind": "fragment"},
        headers={"Authorization": server.token},
    )
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "of")


def test_a_search_of_facts_over_its_time_limit_is_refused(
    server: Server, groups: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE buffer_groupdigest SET facts = facts || jsonb_build_object('meta.list',
                (SELECT jsonb_agg(n) FROM generate_series(1, 200000) n))"""
        )
    monkeypatch.setattr(sample_lists, "_STATEMENT_TIMEOUT_MS", 1)

    answer = server.ask("", {"q": "meta.list:>199999", "sort": "-meta.list"})

    assert (answer.status_code, answer.json()["code"]) == (503, "search_too_slow")


def test_correctness_and_advantages_are_in_rows(server: Server) -> None:
    half, whole, unknown = server.push(
        scored(0.0, 1.0, mark=1, is_correct=[False, True], advantages=[[-1, -1, -1], [1, 1, 1]]),
        scored(0.0, 1.0, mark=2, is_correct=[True, True]),
        scored(0.0, 1.0, mark=3),
    )
    server.digest()

    rows = {int(row["id"]): row for row in server.get()["results"]}

    assert [rows[group]["correct"] for group in (half, whole, unknown)] == [1, 2, None]
    assert rows[half]["advantages"] == [-1.0, 1.0]
    assert rows[unknown]["advantages"] == []
    assert server.ids("solved:<1") == [half]
    assert server.ids("solved:>=0.5") == [whole, half]
    assert server.ids(sort="-solved") == [whole, half, unknown]
    assert server.ids(sort="solved") == [half, whole, unknown]


def test_a_group_has_its_facts(server: Server, groups: list[int]) -> None:
    (new,) = server.push(scored(0.0, 1.0, mark=9, metadata={"difficulty": 7}))

    def facts(group: int) -> dict[str, Any]:
        return dict(server.ask(f"/{group}", {}).json()["facts"])

    assert facts(groups[MIXED]) == {
        "meta.difficulty": [2, 9],
        "override.level": ["easy", "hard"],
    }
    assert facts(groups[HARD])["meta.shown"] is True
    assert facts(groups[BARE]) == {}
    assert facts(new) == {"meta.difficulty": 7}


@pytest.mark.parametrize("text", [">3", "a=b", "~c", "two words", "1,5", "-2"])
def test_quoted_characters_of_comparisons_are_text(server: Server, text: str) -> None:
    (group,) = server.push(scored(0.0, 1.0, mark=1, metadata={"difficulty": text}))
    server.push(scored(0.0, 1.0, mark=2, metadata={"difficulty": "3"}))
    server.digest()

    assert server.ids(f'meta.difficulty:"{text}"') == [group]
