"""The demo shows its progress in a box or in lines."""

import io
import time
from typing import Any

import pytest
from rich.console import Console
from rich.live import Live

from config.demo.show import (
    DEMOS,
    Demo,
    Progress,
    RunState,
    line_of,
    panel_of,
    phase,
    return_progress,
)

RUN = RunState(
    status="running",
    fleet="running",
    workers_running=2,
    workers=2,
    env_steps=20_000,
    queued=7,
    threshold=48.0,
    policy_step=9,
    served_steps=9,
)


def returns(**fields: Any) -> Progress:
    """Return the progress of a run; of one without episodes by default."""
    return return_progress(RUN, **{"episodes": 0, "recent": None, "best": None, **fields})


HALFWAY = returns(episodes=310, recent=123.45, best=130.0)


@pytest.mark.parametrize(
    ("run", "progress", "trainer_exit_code", "expected"),
    [
        (RunState(), returns(), None, "waiting for the trainer"),
        (
            RunState(policy_step=0, fleet="starting"),
            returns(),
            None,
            "starting the fleet (starting)",
        ),
        (RUN, HALFWAY, None, "learning"),
        (RUN, HALFWAY, 1, "restarting the trainer"),
        (RUN, returns(best=450.0), 1, "learnt"),
    ],
)
def test_the_phase_is_described_in_words(
    run: RunState, progress: Progress, trainer_exit_code: int | None, expected: str
) -> None:
    assert phase(run, progress, trainer_exit_code=trainer_exit_code) == expected


@pytest.mark.parametrize(("best", "reached"), [(None, False), (449.9, False), (450.0, True)])
def test_the_target_is_the_best_mean_of_twenty(best: float | None, reached: bool) -> None:
    assert returns(best=best).has_reached_target is reached


def test_a_line_holds_the_numbers() -> None:
    assert line_of("learning", 61.0, RUN, HALFWAY) == (
        "   61 s  learning: 20000 env steps, 310 episodes, mean return 123.5 of 450, "
        "version 9, 7 queued, 2/2 workers"
    )
    assert "mean return – of 450" in line_of("learning", 61.0, RUN, returns())
    assert "version none yet, 0 queued" in line_of("learning", 61.0, RunState(), HALFWAY)


def test_a_narrow_terminal_gets_one_box() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=60)
    console.print(panel_of("CartPole with PPO", "learning", 61.0, RUN, HALFWAY))

    shown = out.getvalue()
    assert "Rolldeck: CartPole with PPO" in shown
    assert "123.5 of 450" in shown
    assert "1:01" in shown


def test_a_log_gets_each_milestone_once_and_a_line_every_ten_seconds() -> None:
    out = io.StringIO()
    console = Console(file=out, width=60)
    demo = Demo(DEMOS["cartpole"], console, exits=True, limit_seconds=20.0)
    for elapsed in (1.0, 5.0, 12.1, 13.0, 23.1, 34.1):
        demo._began_at = time.monotonic() - elapsed
        demo._show(Live(console=console), RUN, HALFWAY, trainer_exit_code=None)

    lines = [line.split(", ")[0] for line in out.getvalue().splitlines()]
    numbers = "learning: 20000 env steps"
    assert [line.strip() for line in lines] == [
        f"1 s  {numbers}",
        "First episode",
        f"12 s  {numbers}",
        f"23 s  {numbers}",
        "Target missed: 20000 env steps",
        f"34 s  {numbers}",
    ]
