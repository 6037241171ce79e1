"""Simulation of atroposlib 0.4.0's environments and a trainer at one queue, in ticks of 0.1 s.

It models the parts of `envs/base.py` that start and cancel rollouts: `env_manager` and
`add_train_workers`, without evaluation and minimum allocations.
"""

import random
from collections import Counter, deque
from dataclasses import dataclass, field

from buffer.batches.rules.pacing import EnvironmentShare, environment_status, is_over, paced
from rolldeck.pacing import PauseRule


@dataclass
class StockEnvironment:
    """One environment process; rollouts are pairs of elapsed and total ticks."""

    env_id: int
    rule: PauseRule
    group_size: int
    max_workers: int
    ticks_of_a_rollout: tuple[int, int]
    chance: random.Random
    total_steps: int = 1000
    has_ended: bool = False
    running: list[list[int]] = field(default_factory=list)
    cancelled: int = 0
    wasted_ticks: int = 0
    finished: int = 0

    def work(self) -> int:
        """Advance every rollout by a tick; return the number of finished groups."""
        for rollout in self.running:
            rollout[0] += 1
        done = [rollout for rollout in self.running if rollout[0] >= rollout[1]]
        self.running = [rollout for rollout in self.running if rollout[0] < rollout[1]]
        self.finished += len(done)
        return len(done)

    def obey(self, queue_size: int, current_step: int = 0) -> None:
        """React to a status like `env_manager`, which leaves its loop near the total steps."""
        batches = queue_size * self.group_size // self.rule.batch_size
        if self.has_ended or current_step + batches > self.total_steps:
            self.has_ended = True
            self._cancel(len(self.running))
        elif queue_size * self.group_size >= self.rule.pause_above:
            self._cancel(len(self.running))
        elif len(self.running) < self.max_workers:
            room = int(self.rule.pause_above) // self.group_size - queue_size
            allowed = min(self.max_workers, room)
            self._cancel(max(0, len(self.running) - allowed))
            while len(self.running) < allowed:
                self.running.append([0, self.chance.randint(*self.ticks_of_a_rollout)])

    def _cancel(self, count: int) -> None:
        self.wasted_ticks += sum(ticks for ticks, _ in self.running[:count])
        self.cancelled += count
        self.running = self.running[count:]


@dataclass(frozen=True)
class Outcome:
    """The result of a simulation."""

    finished: int
    cancelled: int
    wasted_share: float
    """Share of ticks that belonged to cancelled rollouts."""
    longest_queue: int
    trained: int


def simulate(
    environments: list[StockEnvironment],
    *,
    rule: PauseRule,
    train_ticks: int,
    ticks: int,
    is_paced: bool,
) -> Outcome:
    """Run environments and a trainer with the plain threshold of 0.4.0, or paced."""
    shares = [
        EnvironmentShare(
            env_id=environment.env_id,
            max_token_length=1024,
            weight=1.0,
            group_size=environment.group_size,
            min_batch_allocation=None,
            connected=True,
        )
        for environment in environments
    ]
    queue: deque[tuple[int, int]] = deque()
    over, trained, busy_until, longest = False, 0, 0, 0
    for tick in range(ticks):
        for environment in environments:
            queue.extend([(environment.env_id, environment.group_size)] * environment.work())
        longest = max(longest, sum(size for _, size in queue))
        if tick >= busy_until and sum(size for _, size in queue) >= rule.batch_size:
            taken = 0
            while taken < rule.batch_size:
                taken += queue.popleft()[1]
            trained, busy_until = trained + 1, tick + train_ticks
        for environment in environments:
            sequences: Counter[int | None] = Counter()
            for env_id, size in queue:
                sequences[env_id] += size
            status = environment_status(
                env_id=environment.env_id,
                environments=shares,
                queued=Counter(queue),
                batch_size=rule.batch_size,
            )
            if is_paced:
                over = is_over(rule, over=over, queued=sequences.total())
                status = paced(
                    status,
                    env_id=environment.env_id,
                    environments=shares,
                    queued=sequences,
                    rule=rule,
                    over=over,
                )
            environment.obey(status.queue_size)
    return _outcome(environments, longest=longest, trained=trained)


def _outcome(environments: list[StockEnvironment], *, longest: int, trained: int) -> Outcome:
    wasted = sum(environment.wasted_ticks for environment in environments)
    finished = sum(environment.finished for environment in environments)
    mean = sum(sum(environment.ticks_of_a_rollout) / 2 for environment in environments) / len(
        environments
    )
    return Outcome(
        finished=finished,
        cancelled=sum(environment.cancelled for environment in environments),
        wasted_share=wasted / (wasted + finished * mean),
        longest_queue=longest,
        trained=trained,
    )


def cast(
    count: int, rule: PauseRule, *, workers: int = 16, seed: int = 1
) -> list[StockEnvironment]:
    """Return `count` equal environments, with rollouts of 2 to 20 seconds."""
    return [
        StockEnvironment(
            env_id=env_id,
            rule=rule,
            group_size=8,
            max_workers=16,
            ticks_of_a_rollout=(20, 200),
            chance=random.Random(1000 + env_id),
        )
        for env_id in range(count)
    ]
