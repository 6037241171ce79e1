"""Orphaned processes of an earlier worker are distinguished from those of a running one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.fleet.worker.node_cleanup import Mark, lives, read_mark, why_ended
from rollouts.fleet.worker.resources import shortage

MINE = Mark(fleet="f00d", worker=0, incarnation="2-a-b", owner_pid=100, owner_started=5000.0)
OLD = replace(MINE, incarnation="1-a-b", owner_pid=50, owner_started=4000.0)


@given(
    fleet=st.from_regex(r"[0-9a-f]{12}", fullmatch=True),
    worker=st.integers(0, 1023),
    incarnation=st.from_regex(r"[\w-]{1,60}", fullmatch=True),
    pid=st.integers(1, 1 << 22),
    started=st.floats(0, 4e9).map(lambda seconds: round(seconds, 2)),
)
def test_a_mark_is_read_back_unchanged(
    fleet: str, worker: int, incarnation: str, pid: int, started: float
) -> None:
    mark = Mark(
        fleet=fleet, worker=worker, incarnation=incarnation, owner_pid=pid, owner_started=started
    )

    assert read_mark(str(mark)) == mark


@pytest.mark.parametrize("text", ["", "f00d", "f00d x 1-a 100 5000.0", "f00d 0 1-a 100 soon"])
def test_other_text_is_not_a_mark(text: str) -> None:
    assert read_mark(text) is None


def test_a_process_without_its_worker_is_ended_in_every_fleet() -> None:
    assert why_ended(OLD, mine=MINE, owner_lives=False) == "its worker is gone"
    assert why_ended(replace(OLD, fleet="beef"), mine=MINE, owner_lives=False)


def test_a_process_of_an_earlier_incarnation_is_ended() -> None:
    assert why_ended(OLD, mine=MINE, owner_lives=True) == "it belongs to an earlier worker 0"


@pytest.mark.parametrize(
    "other",
    [replace(OLD, fleet="beef"), replace(OLD, worker=1), MINE],
    ids=["of another fleet", "of another worker", "my own"],
)
def test_a_process_of_another_live_worker_is_kept(other: Mark) -> None:
    assert why_ended(other, mine=MINE, owner_lives=True) == ""


def test_a_reused_process_id_is_recognized() -> None:
    assert lives(OLD, 4000.4)
    assert not lives(OLD, 4900.0)
    assert not lives(OLD, None)


@pytest.mark.parametrize(
    ("share", "used", "expected"),
    [
        (1, 2e9, ""),
        (1, 20e9, "4.0 of 24.0 GB of the GPU are free, its share is 1"),
        (0.25, 18e9, ""),
        (0.25, 20e9, "4.0 of 24.0 GB of the GPU are free, its share is 0.25"),
        (2, 2e9, ""),
    ],
)
def test_a_gpu_is_free_when_the_share_of_a_worker_is_free(
    share: float, used: float, expected: str
) -> None:
    assert shortage(share=share, total_bytes=int(24e9), used_bytes=int(used)) == expected
