"""Causes of lost env slots are counted, newest first."""

import pytest

from rollouts.diagnosis.rules.causes import diagnose
from rollouts.diagnosis.rules.flow import Facts
from rollouts.diagnosis.rules.problems import causes

CAUSES: dict[str, tuple[list[tuple[str, int]], list[str]]] = {
    "an exception": (
        [("Slot 3: restarted after an error: KeyError: 'goal'", 1)],
        ["e: KeyError: 'goal' (1 time)"],
    ),
    "an exception of several slots, one of which is given up": (
        [
            ("Slot 3: given up after an error: KeyError: 'goal'", 1),
            ("Slot 12: restarted after an error: KeyError: 'goal'", 1),
        ],
        ["e: KeyError: 'goal' (2 times)"],
    ),
    "hangs of two processes": (
        [
            ("env process 6414 did not answer for 10 s; restarting: 2 slots", 2),
            ("env process 6470 did not answer for 10 s; restarting: 2 slots", 2),
        ],
        ["e: its process did not answer for 10 s (4 times)"],
    ),
    "a crash, then an exception": (
        [
            ("Slot 0: restarted after an error: ValueError: \nof two lines", 1),
            ("env process 7 ended with signal 11; given up: 8 slots", 8),
        ],
        ["e: ValueError: \nof two lines (1 time)", "e: its process ended with signal 11 (8 times)"],
    ),
    "more causes than are shown": (
        [(f"Slot 0: restarted after an error: E{number}", 1) for number in range(5)],
        ["e: E0 (1 time)", "e: E1 (1 time)", "e: E2 (1 time)", "2 further causes"],
    ),
    "a message of another form": ([("not started", 1)], ["e: not started (1 time)"]),
    "a long message": (
        [(f"Slot 0: restarted after an error: {'x' * 900}", 1)],
        [f"e: {'x' * 300} (1 time)"],
    ),
    "no events": ([], []),
}


@pytest.mark.parametrize("name", CAUSES)
def test_causes_are_counted_without_slots_and_processes(name: str) -> None:
    messages, shown = CAUSES[name]

    assert causes(messages, environment="e") == shown


def test_workers_that_gave_up_every_slot_show_the_error_of_the_slots() -> None:
    diagnosis, *_ = diagnose(
        Facts(
            kind="fleet",
            status="starting",
            unit="fragments",
            crashes=4,
            crash_reason="Worker 0 is lost: every environment slot was given up",
            slots_lost=92,
            env_errors=["module:lab:Maze: KeyError: '0' (92 times)"],
        )
    )

    assert diagnosis.kind == "workers_down"
    assert diagnosis.evidence[:2] == [
        "Worker 0 is lost: every environment slot was given up",
        "module:lab:Maze: KeyError: '0' (92 times)",
    ]
