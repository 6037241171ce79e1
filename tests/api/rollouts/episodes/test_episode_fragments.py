"""Lookup of the stored fragments of a reported episode."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from django.test import Client

from buffer.items.models.items import FragmentChunk
from rolldeck import wire
from rollouts.control.models.fleets import EpisodeWindow
from runs.lifecycle.models.runs import Run
from tests.api.rollouts.episodes.test_episode_spread import report
from tests.buffer_factories import arrays, fragment, push
from tests.factories import bearer, make_run

pytestmark = pytest.mark.django_db(transaction=True)
STEPS = 6


@pytest.fixture
def run() -> Run:
    return make_run(name="pole", epoch=1, policy_step=3, batch_size=2, max_staleness=5)


def cut(slot: str, number: int, *episodes: tuple[str, int, str], begins: bool) -> wire.Fragment:
    """Return a fragment of six steps: of each episode its id, steps and outcome; reward 1 each."""
    sizes = [size for _, size, _ in episodes]
    assert sum(sizes) == STEPS
    starts = np.cumsum([0, *sizes[:-1]])
    ends = np.cumsum(sizes) - 1
    first = np.zeros(STEPS, bool)
    first[starts] = True
    first[0] = begins
    marks = {name: np.zeros(STEPS, bool) for name in ("terminated", "truncated")}
    for end, (_, _, outcome) in zip(ends, episodes, strict=True):
        if outcome:
            marks[outcome][end] = True
    return fragment(
        slot=slot,
        number=number,
        worker=slot.partition("-")[0],
        steps=STEPS,
        episode_ids=[name for name, _, _ in episodes],
        arrays=arrays(
            STEPS,
            reward=np.ones(STEPS, np.float32),
            first=first,
            episode_index=np.repeat(np.arange(len(episodes), dtype=np.int32), sizes),
            **marks,
        ),
    )


@pytest.fixture
def ids(run: Run) -> list[int]:
    """Episodes of returns 2, 9 (over two fragments) and 1 of worker 0; a 9 of worker 1."""
    fragments = [
        cut("w0-0@a", 0, ("a/0", 2, "terminated"), ("a/1", 4, ""), begins=True),
        cut("w0-0@a", 1, ("a/1", 5, "terminated"), ("a/2", 1, "truncated"), begins=False),
        cut("w1-0@a", 0, ("b/0", 6, ""), begins=True),
        cut("w1-0@a", 1, ("b/0", 3, "terminated"), ("b/1", 3, ""), begins=False),
    ]
    answer = Client().post(
        f"/api/v1/runs/{run.name}/fragments",
        data=push(*fragments),
        content_type=wire.FRAGMENTS_TYPE,
        headers=bearer("worker", run=run),
    )
    assert answer.status_code == 200, answer.content
    return list(FragmentChunk.objects.filter(run=run).order_by("id").values_list("id", flat=True))


def reported(run: Run, *returns: float, **fields: Any) -> int:
    row = report(run, *returns, at=datetime.now(UTC), **fields)
    row.save()
    return row.pk


def request_fragments(run: Run, report: int, *, status: int = 200, **query: Any) -> Any:
    answer = Client().get(
        f"/api/v1/runs/{run.name}/episodes/{report}/fragments",
        query,
        headers=bearer("trainer", "read", run=run),
    )
    assert answer.status_code == status, answer.content
    return answer.json()


def test_the_fragments_of_the_very_episode_are_found(run: Run, ids: list[int]) -> None:
    pk = reported(run, 2.0, 9.0, 1.0)

    assert request_fragments(run, pk, value=9) == {
        "next": None,
        "results": [
            {"fragment": ids[0], "episode": "a/1", "first": 2, "steps": 4},
            {"fragment": ids[1], "episode": "a/1", "first": 0, "steps": 5},
        ],
        "candidates": 1,
    }
    (lowest,) = request_fragments(run, pk, of="return", value=1)["results"]
    assert (lowest["fragment"], lowest["episode"], lowest["first"]) == (ids[1], "a/2", 5)
    assert request_fragments(run, pk, of="length", value=9)["results"][0]["episode"] == "a/1"
    other = reported(run, 9.0, worker=1)
    assert [part["fragment"] for part in request_fragments(run, other, value=9)["results"]] == ids[
        2:
    ]


def test_return_and_length_together_identify_the_episode(run: Run, ids: list[int]) -> None:
    pk = reported(run, 2.0, lengths=[3])

    assert request_fragments(run, pk, value=2) == {"results": [], "next": None, "candidates": 0}


def test_an_episode_whose_beginning_is_not_stored_is_not_taken_for_another(
    run: Run, ids: list[int]
) -> None:
    FragmentChunk.objects.filter(pk=ids[0]).delete()

    assert request_fragments(run, reported(run, 5.0), value=5)["results"] == []


def test_an_evaluation_has_no_fragments(run: Run, ids: list[int]) -> None:
    pk = reported(run, 2.0, 9.0, 1.0, mode="eval")

    assert request_fragments(run, pk, value=9) == {"results": [], "next": None, "candidates": 0}


def test_a_report_of_another_run_and_a_value_that_is_none_are_refused(run: Run) -> None:
    other = reported(make_run(name="beta"), 9.0)

    assert request_fragments(run, other, value=9, status=404)["code"] == "not_found"
    assert EpisodeWindow.objects.count() == 1
    refused = request_fragments(run, other, status=400)
    assert refused["errors"][0]["field"] == "value"
