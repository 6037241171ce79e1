"""The demo shows its progress in a box or in lines."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from config.demo.progress import Progress, RunState, phase
from config.demo.returns import ReturnsProgress
from config.demo.view import Frame, LiveView, PlainView, line_of

URL = "http://127.0.0.1:8000/login/once?next=/runs/demo-1#abc"
HALFWAY = ReturnsProgress(
    run=RunState(
        status="running",
        fleet="running",
        workers_running=2,
        workers=2,
        env_steps=20_000,
        queued=7,
        threshold=48.0,
        policy_step=9,
        served_steps=9,
    ),
    episodes=310,
    recent_return=123.45,
    best_recent_return=130.0,
)


def frame(elapsed_seconds: float = 61.0, progress: Progress = HALFWAY) -> Frame:
    return Frame(
        title="CartPole with PPO",
        phase="learning",
        elapsed_seconds=elapsed_seconds,
        progress=progress,
        url=URL,
    )


@pytest.mark.parametrize(
    ("progress", "trainer_exit_code", "expected"),
    [
        (ReturnsProgress(), None, "waiting for the trainer"),
        (
            ReturnsProgress(run=RunState(policy_step=0, fleet="starting")),
            None,
            "starting the fleet (starting)",
        ),
        (HALFWAY, None, "learning"),
        (HALFWAY, 1, "restarting the trainer"),
        (ReturnsProgress(best_recent_return=450.0), 1, "learnt"),
    ],
)
def test_the_phase_is_described_in_words(
    progress: ReturnsProgress, trainer_exit_code: int | None, expected: str
) -> None:
    assert phase(progress, trainer_exit_code=trainer_exit_code) == expected


@pytest.mark.parametrize(("best", "reached"), [(None, False), (449.9, False), (450.0, True)])
def test_the_target_is_the_best_mean_of_twenty(best: float | None, reached: bool) -> None:
    assert ReturnsProgress(best_recent_return=best).has_reached_target is reached


def test_a_line_holds_the_numbers() -> None:
    assert line_of(frame()) == (
        "   61 s  learning: 20000 env steps, 310 episodes, mean return 123.5 of 450, "
        "version 9, 7 queued, 2/2 workers"
    )
    assert "mean return – of 450" in line_of(frame(progress=ReturnsProgress()))


def test_a_log_gets_the_link_once_and_a_line_every_ten_seconds() -> None:
    out = io.StringIO()
    with PlainView(Console(file=out, width=60)) as view:
        for elapsed in (1.0, 5.0, 11.5, 12.0, 22.0):
            view.show(frame(elapsed))

    lines = out.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["Watch", "1", "12", "22"]
    assert lines[0].endswith(URL)


def test_a_narrow_terminal_gets_one_box_and_an_unbroken_link_above_it() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=60)
    with LiveView(console) as view:
        view.show(frame())
        view.show(frame())
        view.print_line("First episode")

    shown = out.getvalue()
    assert "Rolldeck: CartPole with PPO" in shown
    assert "123.5 of 450" in shown
    assert shown.count(URL) == 1
    assert "First episode" in shown


def test_a_run_without_weights_has_no_version_yet() -> None:
    run = replace(HALFWAY.run, policy_step=-2)

    assert "version none yet, 7 queued" in line_of(frame(progress=replace(HALFWAY, run=run)))
