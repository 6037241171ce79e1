"""Shape what a manager and its workers tell each other."""

from typing import Final

from msgspec import Struct

from rolldeck.wire import Desired, EpisodeWindow, FleetEvent, WorkerEnding, WorkerReport
from rollouts.fleet.weights.records import NO_STEP


class Orders(Struct, frozen=True, kw_only=True):
    """What a manager wants of a worker now."""

    desired: Desired
    epoch: int = 0
    policy_step: int = NO_STEP
    """Newest published version."""
    credits: int = 0
    """Further fragments that may be begun."""
    is_reporting: bool = False
    """Whether the answer shall carry statistics, timings and where time goes."""


class WorkerState(Struct, frozen=True, kw_only=True):
    """How a worker is, in answer to orders."""

    report: WorkerReport
    unspent: int
    """Credits that no slot has taken."""
    outstanding: int
    """Credits that are out: unspent, being filled, or waiting for the platform's answer."""
    accepted: int
    """Fragments of this incarnation that the platform has accepted."""
    is_drained: bool
    """Nothing is being filled and nothing waits to be sent."""
    is_hopeless: bool = False
    """It failed, and so would any other worker of the same configuration."""
    refusal: str = ""
    """Why it does not act with the newest weights that it got, if their shapes are wrong."""
    buffered_steps: int = 0
    """Env steps in fragments that are being filled."""
    episodes: list[EpisodeWindow] = []
    events: list[FleetEvent] = []


def ending_of(index: int, incarnation: str, state: WorkerState | None, reason: str) -> WorkerEnding:
    """Return what a worker was in the end; `state` is the last that was heard of it."""
    if state is None:
        return WorkerEnding(index=index, incarnation=incarnation, reason=reason)
    # One that was asked to end has dropped by itself what was not a whole fragment.
    dropped_at_the_end = state.report.dropped_steps.get("stopped", 0)
    return WorkerEnding(
        index=index,
        incarnation=incarnation,
        reason=reason,
        node=state.report.node,
        pid=state.report.pid,
        env_steps=state.report.env_steps,
        fragments_sent=state.report.fragments_sent,
        lost_steps=state.buffered_steps + dropped_at_the_end,
        unsent_fragments=state.report.to_send,
    )


IDLE: Final = Orders(desired="paused")
