"""Workers return the stacks of their threads."""

import threading
from collections.abc import Callable

from small_platform import SmallPlatform, served

from rolldeck.operator_requests import StacksRequest
from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.process.logs import LINES_AT_MOST, read_stacks
from rollouts.fleet.process.settings import FleetSettings

Eventually = Callable[..., None]
MakeSettings = Callable[..., FleetSettings]


def wait_here_for(gate: threading.Event) -> None:
    gate.wait()


def test_every_other_thread_is_listed_with_its_name_and_its_innermost_call_last() -> None:
    gate = threading.Event()
    thread = threading.Thread(target=wait_here_for, args=(gate,), name="the patient \x1b[31mone")
    thread.start()
    try:
        stacks = read_stacks()
    finally:
        gate.set()
        thread.join()

    [begin] = [at for at, line in enumerate(stacks.lines) if "the patient" in line]
    stack = stacks.lines[begin : stacks.lines.index("", begin)]
    assert "\x1b" not in stack[0]
    assert any("in wait_here_for" in line for line in stack)
    assert any(line.strip() == "gate.wait()" for line in stack)
    assert "in wait" in [line for line in stack if " in " in line][-1]
    assert stacks.path.startswith("pid ")


def test_a_deep_stack_is_cut_at_its_outer_calls() -> None:
    gate, deep = threading.Event(), threading.Event()

    def dig(depth: int) -> None:
        if depth:
            dig(depth - 1)
        else:
            deep.set()
            gate.wait()

    threads = [threading.Thread(target=dig, args=(300,)) for _ in range(12)]
    for thread in threads:
        thread.start()
    deep.wait()
    try:
        stacks = read_stacks()
    finally:
        gate.set()
        for thread in threads:
            thread.join()

    assert any("outer calls omitted" in line for line in stacks.lines)
    assert len(stacks.lines) == LINES_AT_MOST
    assert "lines omitted" in stacks.note


def test_a_fleet_answers_for_the_requested_worker_only(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url, LocalFleet(make_settings(url=url)):
        eventually(lambda: bool(platform.reports and platform.reports[-1].workers[0].pid))
        there = platform.reports[-1].workers[0].incarnation
        platform.stacks = [
            StacksRequest(id="mine", worker=0, incarnation=there),
            StacksRequest(id="ended", worker=0, incarnation="another"),
        ]

        eventually(lambda: {"mine", "ended"} <= set(platform.log_answers))

    assert any("rollout" in line for line in platform.log_answers["mine"].lines)
    assert platform.log_answers["ended"].lines == []
    assert platform.log_answers["ended"].note == "the worker no longer exists"


def test_the_report_of_a_worker_has_its_newest_log_line(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url, LocalFleet(make_settings(url=url)):
        eventually(
            lambda: any(worker.last_log for report in platform.reports for worker in report.workers)
        )
