"""Expensive parts are read at their own interval, however often the run is read."""

from collections.abc import Iterator

import pytest

from runs.live.services import topic_named
from tests.factories import make_run
from tests.live_sockets import cookie_of, in_database, opened
from web.live import parts

pytestmark = pytest.mark.django_db

PART = "test_costly"


@pytest.fixture
def reads() -> Iterator[list[int]]:
    reads_made: list[int] = []

    def read(run_id: int) -> int:
        reads_made.append(run_id)
        return len(reads_made)

    parts.PARTS[PART], parts.PACES[PART] = read, 60.0
    yield reads_made
    parts.PARTS.pop(PART), parts.PACES.pop(PART)


def test_a_paced_part_is_read_once_per_interval(reads: list[int]) -> None:
    topic = topic_named(f"run:{make_run().name}")

    first = topic.poll(None)
    late = topic.poll(topic.late)
    again = topic.poll(None)
    named = topic.poll({PART})

    # The first snapshot does not wait for the part.
    assert first is not None
    assert (PART in first.parts, topic.late) == (False, {"newest", PART})
    assert late is not None
    assert late.parts[PART].text == b"1"
    assert [notice is None or PART not in notice.parts for notice in (again, named)] == [True, True]
    assert len(reads) == 1


@pytest.mark.django_db(transaction=True)
async def test_a_page_receives_a_paced_part_right_after_its_snapshot(reads: list[int]) -> None:
    await in_database(make_run)()
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        await page.send(type="subscribe", topic="run:alpha")
        snapshot = await page.receive("snapshot")
        delta = await page.receive_parts(within=1.5)

    assert PART not in snapshot["parts"]
    assert delta["parts"][PART] == 1
    assert {"queue", "run"}.isdisjoint(delta["parts"])


def test_each_page_of_a_run_has_its_own_time(reads: list[int]) -> None:
    for name in ("alpha", "beta"):
        topic = topic_named(f"run:{make_run(name=name).name}")
        topic.poll(None)
        change = topic.poll(topic.late)
        assert change is not None
        assert PART in change.parts
    assert len({*reads}) == 2
