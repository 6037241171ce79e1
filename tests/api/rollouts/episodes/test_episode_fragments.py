"""Lookup of the stored fragments of an episode."""

from typing import Any

import numpy as np
import pytest
from django.test import Client

from buffer.items.models import FragmentChunk
from rolldeck import wire
from rolldeck.fleet_wire import episode_id
from runs.lifecycle.models import Run
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


def pushed(run: Run, *fragments: wire.Fragment) -> list[int]:
    answer = Client().post(
        f"/api/v1/runs/{run.name}/fragments",
        data=push(*fragments),
        content_type=wire.FRAGMENTS_TYPE,
        headers=bearer("worker", run=run),
    )
    assert answer.status_code == 200, answer.content
    return list(FragmentChunk.objects.filter(run=run).order_by("id").values_list("id", flat=True))


Alike = dict[tuple[str, int], int]


@pytest.fixture
def alike(run: Run) -> Alike:
    """Two slots with three episodes of return 2 each, and one of return 12 in three fragments.

    Return the ids of the fragments by slot and number.
    """
    pushed(
        run,
        *(
            cut(
                slot,
                0,
                *((f"{slot}/{number}", 2, "terminated") for number in (1, 2, 3)),
                begins=True,
            )
            for slot in ("w0-0@a", "w0-1@a")
        ),
        cut("w0-0@a", 1, ("w0-0@a/4", 4, "terminated"), ("w0-0@a/5", 2, ""), begins=True),
        cut("w0-0@a", 2, ("w0-0@a/5", 6, ""), begins=False),
        cut("w0-0@a", 3, ("w0-0@a/5", 4, "truncated"), ("w0-0@a/6", 2, ""), begins=False),
    )
    rows = FragmentChunk.objects.filter(run=run).values_list("slot", "number", "id")
    return {(slot.partition("@")[0], number): pk for slot, number, pk in rows}


def filtered(run: Run, *, episode: str, status: int = 200, **query: Any) -> Any:
    answer = Client().get(
        "/api/v1/trajectories",
        {"kind": "fragment", "run": run.name, "q": f"episode:{episode}"} | query,
        headers=bearer("read", run=run),
    )
    assert answer.status_code == status, answer.content
    return answer.json()


def test_the_list_of_fragments_is_filtered_by_an_episode(run: Run, alike: Alike) -> None:
    def ids(episode: str, **query: Any) -> list[int]:
        page = filtered(run, episode=episode, **query)
        assert not page["is_partial"]
        return [int(row["id"]) for row in page["results"]]

    long = [alike["w0-0", number] for number in (3, 2, 1)]
    assert ids("w0-0@a/5") == long
    assert ids("w0-0@a/4") == [alike["w0-0", 1]]
    assert ids("w0-0@a/2") == [alike["w0-0", 0]]
    assert ids("w0-1@a/2") == [alike["w0-1", 0]]
    assert ids("w0-0@a/5 state:served") == []
    assert [ids(f"w0-0@a/{number}") for number in (0, 7)] == [[], []]
    assert ids("w9-9@a/1") == []
    page = filtered(run, episode="w0-0@a/5", limit=2)
    assert [int(row["id"]) for row in page["results"]] == long[:2]
    page = filtered(run, episode="w0-0@a/5", limit=2, cursor=page["next"])
    assert [int(row["id"]) for row in page["results"]] == long[2:]


def test_a_slot_of_a_long_name_is_found_by_its_end(run: Run) -> None:
    slot = f"w0-0@{'b' * 60}"
    episode = episode_id(slot, 7)
    assert episode == f"{'b' * 48}/7"
    (stored,) = pushed(run, cut(slot, 0, (episode, 6, "terminated"), begins=True))

    assert [int(row["id"]) for row in filtered(run, episode=episode)["results"]] == [stored]


@pytest.mark.parametrize("episode", ["", "w0-0@a", "w0-0@a/", "/3", "w0-0@a/x", "w0-0@a/-1"])
def test_an_episode_without_slot_and_number_is_refused(run: Run, episode: str) -> None:
    (error,) = filtered(run, episode=episode, status=400)["errors"]

    assert error["field"] == "q"


def request_episode(run: Run, episode: str, *, status: int = 200) -> Any:
    answer = Client().get(
        f"/api/v1/runs/{run.name}/episodes/detail",
        {"episode": episode},
        headers=bearer("read", run=run),
    )
    assert answer.status_code == status, answer.content
    return answer.json()


def test_an_episode_is_joined_over_its_fragments(run: Run) -> None:
    slot = "w0-0@a"
    ids = pushed(
        run,
        cut(slot, 0, (f"{slot}/1", 2, "terminated"), (f"{slot}/2", 4, ""), begins=True),
        cut(slot, 1, (f"{slot}/2", 5, "terminated"), (f"{slot}/3", 1, "truncated"), begins=False),
    )
    episode = request_episode(run, f"{slot}/2")

    parts, curves = episode.pop("parts"), episode.pop("curves")
    assert curves["step"] == list(range(9))
    assert curves["total"]["last"] == [*range(1, 10)]
    assert curves["reward"]["last"] == [1] * 9
    assert episode == {
        "id": f"{slot}/2",
        "slot": slot,
        "environment": "gymnasium:CartPole-v1",
        "worker": "w0",
        "steps": 9,
        "total_return": 9.0,
        "begins": True,
        "outcome": "terminated",
        "is_partial": False,
    }
    assert [
        (part["fragment"], part["first"], part["steps"], part["reward"], part["total"])
        for part in parts
    ] == [(ids[0], 2, 4, 4.0, STEPS), (ids[1], 0, 5, 5.0, STEPS)]
    assert parts[0]["state"] == "queued"
    last = request_episode(run, f"{slot}/3")
    assert (last["outcome"], last["total_return"], len(last["parts"])) == ("truncated", 1.0, 1)


def test_an_episode_without_its_first_steps_is_marked(run: Run) -> None:
    slot = "w0-0@a"
    pushed(run, cut(slot, 1, (f"{slot}/2", 5, "terminated"), (f"{slot}/3", 1, ""), begins=False))

    episode = request_episode(run, f"{slot}/2")
    assert (episode["begins"], episode["steps"]) == (False, 5)
    assert request_episode(run, f"{slot}/3")["outcome"] == ""


@pytest.mark.parametrize(
    ("episode", "status", "field"),
    [("", 400, "episode"), ("w0-0@a", 400, "episode"), ("a\x00/1", 400, "episode")],
)
def test_an_invalid_episode_id_names_the_field(
    run: Run, episode: str, status: int, field: str
) -> None:
    assert request_episode(run, episode, status=status)["errors"][0]["field"] == field


def test_an_episode_that_is_not_stored_is_not_found(run: Run) -> None:
    answer = request_episode(run, "w0-0@a/7", status=404)

    assert "no stored fragment holds the episode w0-0@a/7" in answer["detail"]
