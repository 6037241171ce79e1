"""Fragment lists, steps, and fragments with damaged or missing bytes."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from django.test import Client

from buffer.inspect.api.fragments import newest_part
from buffer.inspect.rules.sample_filter import SORTS, SampleKind
from buffer.items.models import FragmentChunk
from buffer.payloads.models import Payload
from rolldeck import wire
from runs.lifecycle.models import Run
from tests.buffer_factories import arrays, fragment, push
from tests.factories import bearer, make_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run() -> Run:
    return make_run(name="alpha", epoch=1, policy_step=3, batch_size=2, max_staleness=5)


def send(run: Run, *fragments: wire.Fragment) -> list[int]:
    """Push fragments, and return their ids in order."""
    answer = Client().post(
        f"/api/v1/runs/{run.name}/fragments",
        data=push(*fragments),
        content_type=wire.FRAGMENTS_TYPE,
        headers=bearer("worker", run=run),
    )
    assert answer.status_code == 200, answer.content
    return list(FragmentChunk.objects.filter(run=run).order_by("id").values_list("id", flat=True))


def get(run: Run, path: str = "", *, status: int = 200, **query: Any) -> Any:
    url = f"/api/v1/runs/{run.name}/fragments{path}" if path else "/api/v1/trajectories"
    query = query if path else {"kind": "fragment", "run": run.name} | query
    answer = Client().get(url, query, headers=bearer("read", run=run))
    assert answer.status_code == status, answer.content
    return answer.json()


def listed(run: Run, **query: Any) -> list[int]:
    return [int(row["id"]) for row in get(run, **query)["results"]]


def made(
    slot: str, version: int = 0, *, worker: str = "w0@a", reward: float = 1.0
) -> wire.Fragment:
    rewards = np.full(4, reward, np.float32)
    versions = np.full(4, version, np.int32)
    return fragment(
        slot=slot,
        worker=worker,
        version_min=version,
        version_max=version,
        arrays=arrays(4, reward=rewards, policy_step=versions),
    )


def test_the_newest_fragments_are_listed_first_with_their_rewards(run: Run) -> None:
    ids = send(run, made("w0-0@a", 1), made("w0-1@a", 2, reward=2.5))

    rows = get(run)["results"]

    assert [int(row["id"]) for row in rows] == ids[::-1]
    assert [row["score"] for row in rows] == [10.0, 4.0]
    assert (rows[0]["slot"], rows[0]["worker"], rows[0]["length"]) == ("w0-1@a", "w0@a", 4)
    assert (rows[0]["policy_step"], rows[0]["state"], rows[0]["step"]) == (2, "queued", None)


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ("worker:w1@a", [2]),
        ("-worker~w1", [1, 0]),
        ("slot~w0-1", [1]),
        ("slot:w0-1@a", [1]),
        ("version>=2", [2, 1]),
        ("version:<=1", [0]),
        ("version:2", [1]),
        ("length:4", [2, 1, 0]),
        ("length>4", []),
        ("state:served", []),
        ("state:served,queued", [2, 1, 0]),
        ("reason:killed", []),
        ("step>0", []),
        ("arrived<1h", [2, 1, 0]),
        ("env~cart", [2, 1, 0]),
        ("run:alpha", [2, 1, 0]),
    ],
    ids=str,
)
def test_each_qualifier_narrows_the_list(run: Run, q: str, expected: list[int]) -> None:
    ids = send(run, made("w0-0@a", 1), made("w0-1@a", 2), made("w1-0@a", 3, worker="w1@a"))

    assert listed(run, q=q) == [ids[place] for place in expected]


@pytest.mark.parametrize("sort", SORTS[SampleKind.FRAGMENT])
def test_pages_by_each_column_contain_every_fragment_once(run: Run, sort: str) -> None:
    send(run, made("w0-0@a", 1), made("w0-1@a", 3), made("w1-0@a", 2))
    whole, rows, cursor = listed(run, sort=sort), [], ""
    for _ in range(3):
        page = get(run, sort=sort, limit=1, cursor=cursor)
        rows += [int(row["id"]) for row in page["results"]]
        cursor = page["next"]

    assert rows == whole
    assert len(set(whole)) == 3


def test_pages_have_no_gaps_and_no_duplicates(run: Run) -> None:
    ids = send(run, *(made(f"w0-{slot}@a") for slot in range(5)))
    rows, cursor = [], ""
    for _ in range(3):
        page = get(run, limit=2, cursor=cursor)
        rows += [int(row["id"]) for row in page["results"]]
        cursor = page["next"]

    assert rows == ids[::-1]
    assert (cursor, page["is_partial"]) == (None, False)


def test_fragments_are_found_by_batch_with_their_train_step(run: Run) -> None:
    client, trainer = Client(), bearer("trainer", run=run)

    def send_request(path: str, content: bytes = b"{}") -> int:
        url = f"/api/v1/runs/{run.name}{path}"
        return client.post(url, content, "application/json", headers=trainer).status_code

    assert send_request("/trainers", b'{"name": "t", "resume": true}') == 200
    ids = send(run, *(made(f"w0-{slot}@a") for slot in range(3)))
    assert send_request("/batches/next") == 200
    batch = FragmentChunk.objects.get(pk=ids[0]).batch_id

    rows = get(run, q=f"batch:{batch}")["results"]

    assert [int(row["id"]) for row in rows] == [ids[1], ids[0]]
    assert {row["step"] for row in rows} == {1}


def test_a_fragment_is_shown_with_its_neighbours_in_its_slot(run: Run) -> None:
    ids = send(run, *(fragment(slot="w0-0@a", number=number) for number in range(3)))

    response = get(run, f"/{ids[1]}")

    assert (response["before"], response["after"]) == (ids[0], ids[2])
    assert (response["content"]["steps"], response["problem"]) == (4, "")
    assert {"name": "obs", "dtype": "float32", "shape": [4, 4], "size_bytes": 64} in (
        response["content"]["arrays"]
    )
    assert get(run, f"/{ids[0]}")["before"] is None
    assert get(run, f"/{ids[1]}/steps", start=2)["reward"] == [1, 1]


def test_a_fragment_with_corrupt_bytes_is_listed_with_a_reason(run: Run) -> None:
    ids = send(run, made("w0-0@a"), made("w0-1@a"))
    size = FragmentChunk.objects.get(pk=ids[0]).size_bytes
    Payload.objects.filter(item_id=ids[0], kind="fragments").update(content=b"\xc1" * size)

    response = get(run, f"/{ids[0]}")

    assert response["content"] is None
    assert response["problem"].startswith("not a valid fragment")
    assert get(run, f"/{ids[0]}/steps", status=422)["code"] == "invalid_data"
    assert [row["score"] for row in get(run)["results"]] == [4.0, None]


def test_a_fragment_with_missing_bytes_is_listed_with_a_reason(run: Run) -> None:
    ids = send(run, made("w0-0@a"))
    Payload.objects.filter(item_id=ids[0], kind="fragments").delete()

    assert "are missing" in get(run, f"/{ids[0]}")["problem"]
    assert get(run, f"/{ids[0]}/steps", status=410)["code"] == "payload_missing"
    assert listed(run) == ids


def test_a_fragment_of_another_run_is_not_found(run: Run) -> None:
    other = make_run(name="beta", epoch=1, policy_step=0, batch_size=2)
    ids = send(other, made("w0-0@a"))

    assert get(run, f"/{ids[0]}", status=404)["code"] == "not_found"
    assert get(run, f"/{ids[0]}/steps", status=404)["code"] == "not_found"


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("", {"limit": 0}, 400),
        ("", {"cursor": "x"}, 400),
        ("", {"q": "state:lost"}, 400),
        ("", {"q": "a\x00"}, 400),
        ("", {"q": "episode:17"}, 400),
        ("/{first}/steps", {"start": -1}, 400),
        ("/{first}/steps", {"count": 5000}, 400),
        ("/{first}/steps", {"start": 4}, 404),
    ],
    ids=str,
)
def test_invalid_parameters_are_refused(
    run: Run, path: str, query: dict[str, Any], status: int
) -> None:
    ids = send(run, made("w0-0@a"))

    get(run, path.format(first=ids[0]), status=status, **query)


def test_the_live_part_equals_the_list_of_the_newest_fragments(run: Run) -> None:
    ids = send(run, *(made(f"s{number}@a", reward=float(number)) for number in range(7)))

    part = newest_part(run.pk)

    assert part is not None
    assert [int(row.id) for row in part.samples] == ids[:1:-1]
    assert json.loads(msgspec.json.encode(part.samples)) == get(run, limit=5)["results"]
