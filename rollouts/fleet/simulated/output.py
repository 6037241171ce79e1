"""Send real fragments for simulated workers, at a configurable rate.

One fragment is cut from a simulated environment and policy. All others are copies with another
slot, number and version, so they cost the platform as much as real fragments.
"""

import tempfile
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import structs

from rolldeck.errors import InvalidRequest, StaleEpoch
from rolldeck.wire import Fragment, FragmentReceipt, encode, pack_array
from rollouts.fleet.environments import loader
from rollouts.fleet.process.loops import EventLog, Loop
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.simulated.sampling import SimulatedEnvironment, SimulatedInference
from rollouts.fleet.spool.sender import Push, Sender
from rollouts.fleet.spool.spool_directory import Spool
from rollouts.fleet.steps.fragments import FragmentCutter
from rollouts.fleet.steps.step_columns import Outcomes
from runs.config.rules.simulated_fleet import Simulation

QUEUE: Final = 256
BURST_SECONDS: Final = 1.0
"""Seconds' worth of fragments that may be sent in one burst after a pause."""
CLOSE_SECONDS: Final = 3.0

Answered = Callable[[bool], None]
"""Called when the platform has answered for a fragment, with whether it was accepted."""


class SimulatedOutput:
    """Sender of all simulated workers of a fleet, with a rate limit; thread-safe."""

    def __init__(self, settings: FleetSettings, simulation: Simulation, *, push: Push) -> None:
        """Start the sender.

        Args:
            settings: Settings of the fleet.
            simulation: Contains the rate of fragments per second.
            push: Pushes encoded fragments to the platform.
        """
        self._rate = simulation.fragments_per_second
        self._template = _cut_one(settings, simulation)
        self._push_on = push
        self._allowance = 0.0
        self._allowed_at: float | None = None
        self._owners: deque[Answered] = deque()
        self._lock = threading.Lock()
        events = EventLog()
        # This spool only bridges short outages: simulated data need not be durable.
        self._folder = tempfile.TemporaryDirectory(prefix="rolldeck-simulated-")
        self._sender = Sender(
            self._push, spool=Spool(Path(self._folder.name)), capacity=QUEUE, events=events
        )
        self._loop = Loop("simulated output", self._sender.turn, events)
        self._loop.start()

    def may_send(self, now: float) -> bool:
        """Return whether another fragment may be sent now; if so, count it against the rate."""
        with self._lock:
            since = now if self._allowed_at is None else self._allowed_at
            most = max(1.0, self._rate * BURST_SECONDS)
            self._allowance = min(most, self._allowance + (now - since) * self._rate)
            self._allowed_at = now
            if self._allowance < 1 or not self._sender.has_room():
                return False
            self._allowance -= 1
            return True

    def offer(
        self, *, slot: str, number: int, worker: str, version: tuple[int, int], answered: Answered
    ) -> None:
        """Send a fragment of `slot`, labelled with `version`."""
        step = np.full(self._template.steps, version[1], dtype=np.int32)
        fragment = structs.replace(
            self._template,
            slot=slot,
            number=number,
            worker=worker,
            epoch=version[0],
            version_min=version[1],
            version_max=version[1],
            arrays={**self._template.arrays, "policy_step": pack_array(step)},
        )
        with self._lock:
            self._owners.append(answered)
            self._sender.offer(encode(fragment))

    def close(self) -> None:
        """Stop sending; waiting fragments are discarded."""
        self._loop.stop()
        self._sender.close()
        self._loop.join(CLOSE_SECONDS)
        self._sender.save()
        self._folder.cleanup()

    def _push(self, fragments: list[bytes]) -> FragmentReceipt:
        try:
            receipt = self._push_on(fragments)
        except (InvalidRequest, StaleEpoch):
            if len(fragments) == 1:  # refused; batches are retried one by one
                self._owners.popleft()(False)
            raise
        for at in range(len(fragments)):
            # The receipt has only the number of accepted fragments, which is all a manager needs.
            self._owners.popleft()(at < receipt.accepted)
        return receipt


def _cut_one(settings: FleetSettings, simulation: Simulation) -> Fragment:
    """Return a fragment of a simulated environment, without simulated durations."""
    config = settings.config
    environment = SimulatedEnvironment(
        spread=simulation.spread, episode_length=simulation.episode_length
    )
    _, action = loader.describe(environment)
    policy = SimulatedInference(action, seed=config.seed)
    cutter = FragmentCutter(
        slots=["any"],
        environment=config.environment.spec,
        worker="any",
        fragment_length=config.fleet.fragment_length,
    )
    only, first = np.array([0]), np.zeros(1, dtype=np.bool_)
    obs, _ = environment.reset(seed=config.seed)
    cutter.begin(0, obs, episode="0")
    episodes = 0
    while True:
        decision = policy.act(obs[None], {}, first)
        cutter.act(
            only,
            actions=decision.actions,
            logprobs=decision.logprobs,
            values=decision.values,
            policy_step=0,
            state={},
        )
        obs, reward, ended, truncated, _ = environment.step(decision.actions[0])
        finals, begun = {}, {}
        if ended:
            episodes += 1
            finals, begun = {0: obs}, {0: str(episodes)}
            obs, _ = environment.reset()
        outcomes = Outcomes(np.array([reward]), np.array([ended]), np.array([truncated]), finals)
        for _, fragment in cutter.observe(only, obs[None], outcomes, new_episodes=begun):
            return fragment
