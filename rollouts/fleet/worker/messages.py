"""Messages between a manager and its workers."""

from typing import Final

from msgspec import Struct

from rolldeck.wire import Desired, EpisodeWindow, FleetEvent, InfoWindow, WorkerEnding, WorkerReport
from rollouts.fleet.weights.records import NO_STEP, Version


class WorkerCommand(Struct, frozen=True, kw_only=True):
    """A command from a manager to a worker."""

    desired: Desired
    epoch: int = 0
    policy_step: int = NO_STEP
    """Newest published version."""
    credits: int = 0
    """Number of additional fragments the worker may start."""
    is_reporting: bool = False
    """Whether the answer must include statistics, timings and time shares."""


class WorkerState(Struct, frozen=True, kw_only=True):
    """State of a worker, in answer to a command."""

    report: WorkerReport
    unspent: int
    """Credits not yet taken by a slot."""
    outstanding: int
    """Credits in use: unspent, being filled, or waiting for the platform's answer."""
    accepted: int
    """Number of fragments of this incarnation that the platform accepted."""
    is_drained: bool
    """Whether no fragment is being filled and none waits to be sent."""
    cannot_recover: bool = False
    """Whether it failed in a way that any worker of the same configuration would."""
    is_policy_hung: bool = False
    """Whether a call of its policy has not returned within the limit."""
    refusal: str = ""
    """Why the newest weights are not used, if their shapes are wrong; otherwise empty."""
    buffered_steps: int = 0
    """Number of env steps in fragments that are being filled."""
    episodes: list[EpisodeWindow] = []
    info: InfoWindow = InfoWindow()
    events: list[FleetEvent] = []
    evaluation: Version | None = None
    """Version of an evaluation whose result or failure is not reported yet."""


def obstacle_without_credits(active: Version, command: WorkerCommand) -> str:
    """Return why a worker that uses version `active` may not start a fragment or group."""
    if active[1] < command.policy_step:
        return f"waiting for version {command.policy_step} of the weights"
    return "waiting for room in the buffer"


def ending_of(index: int, incarnation: str, state: WorkerState | None, reason: str) -> WorkerEnding:
    """Return the final record of a worker; `state` is its last known state."""
    if state is None:
        return WorkerEnding(index=index, incarnation=incarnation, reason=reason)
    # A worker that was asked to end has already dropped its incomplete fragments.
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


IDLE: Final = WorkerCommand(desired="paused")
NEVER_SPAWNED: Final = "none"
"""Incarnation that a manager reports for a worker that has not started yet."""
