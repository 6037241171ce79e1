"""Final returns of trainings, and their table."""

import pytest

from benchmarks.learning import TASKS, final_return, table

CURVE = [[2048.0 * step, float(step)] for step in range(1, 101)]
ELAPSED = [[6.0 * step, float(step)] for step in range(1, 101)]


@pytest.mark.parametrize(
    ("is_timed", "value"),
    # The last ten steps, and those from second 120 to 360.
    [(False, 95.5), (True, 40.0)],
)
def test_the_final_return_is_that_of_the_last_steps_or_of_the_settled_minutes(
    is_timed: bool, value: float
) -> None:
    assert final_return(CURVE, ELAPSED, is_timed=is_timed) == pytest.approx(value)


def test_one_step_has_a_final_return() -> None:
    assert final_return(CURVE[:1], ELAPSED[:1], is_timed=False) == 1.0


@pytest.mark.parametrize(
    ("task", "finals", "reached"),
    [
        ("acrobot", [-80.0, -90.0], "yes"),
        ("acrobot", [-80.0, -100.0], "no"),
        # A task that must stay learnt must do so with every seed.
        ("cartpole", [499.0, 471.0], "yes"),
        ("cartpole", [499.0, 469.0], "no"),
    ],
)
def test_a_task_is_reached_by_its_mean_or_by_every_seed(
    task: str, finals: list[float], reached: str
) -> None:
    of_seeds = {str(seed): {"final": value} for seed, value in enumerate(finals)}
    about = {"machine": "two cores", "commit": "abc", "date": "2026-01-02"}

    text = table(about | {"tasks": {task: of_seeds}})

    (row,) = (line for line in text.splitlines() if line.startswith(f"| {task}"))
    assert row.endswith(f"| {TASKS[task].least:.0f} ({TASKS[task].source}) | {reached} |")
    assert text.endswith("two cores; commit abc; 2026-01-02.")
