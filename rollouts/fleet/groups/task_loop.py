"""Task loop of a language worker: fetch tasks, sample within credits, hand over, report."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from rolldeck import tracing
from rolldeck.errors import RolldeckError
from rolldeck.lessons import RolloutTask
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.groups.batches import Draw, RolloutBatch, RolloutGroup
from rollouts.fleet.groups.curriculum import Curriculum, LeaseRenewer
from rollouts.fleet.groups.errors import LessonFailed, SamplingStopped
from rollouts.fleet.groups.outbox import Outbox
from rollouts.fleet.groups.outcomes import Lease, split_by_variance
from rollouts.fleet.groups.short_groups import Losses, storable
from rollouts.fleet.groups.task_supply import Credits, TaskSupply, numbers_of
from rollouts.fleet.groups.worker import GroupRolloutWorker, Metrics
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.spans import PipelineMonitor
from rollouts.fleet.worker.episodes import Episode, EpisodeStatistics
from rollouts.fleet.worker.messages import IDLE, WorkerCommand
from rollouts.lessons.rules.lessons import evaluation_seed
from runs.config.rules.run_config import RunConfig

POLL_SECONDS: Final = 0.2
FAILED_PAUSE_SECONDS: Final = 2.0
"""Pause after a task without a group, because there may be no other lesson to sample; each further
one in succession doubles it.
"""
MOST_PAUSE_SECONDS: Final = 30.0

Wants = Literal["command", "weights", "task", "room"]
"""Reason of a wait."""


@dataclass(slots=True, kw_only=True)
class Counted:
    """Counters shared by the loops of a worker; writes require `lock`."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    episodes: int = 0
    tokens: int = 0
    batches: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """Number of episodes that are not trained on, by reason."""
    statistics: EpisodeStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """Objects shared by the loops of one worker and their wrapper."""

    config: RunConfig
    worker_id: str
    supply: TaskSupply
    curriculum: Curriculum
    credits: Credits
    outbox: Outbox
    has_room: Callable[[], bool]
    """Returns whether the sender accepts more."""
    active: Callable[[], Version | None]
    """Returns the version in use."""
    monitor: PipelineMonitor
    events: EventLog
    counted: Counted
    wake: threading.Condition
    """Notified when anything changes that a loop may wait for."""
    closing: threading.Event


class TaskLoop:
    """Loop with at most one batch in flight; call `turn` from a dedicated thread."""

    def __init__(self, context: TaskContext, *, index: int) -> None:
        """Start without a task; the loop with index 0 measures wait times."""
        self._context = context
        self._index = index
        self.command: WorkerCommand = IDLE
        self.is_busy = False
        self.episodes = 0
        self._failures = 0

    def turn(self, worker: GroupRolloutWorker) -> None:
        """Run a task, or wait briefly for one."""
        # Set before the commands are read: an idle loop has then seen the newest commands.
        self.is_busy = True
        wants = None
        try:
            wants = self._act(worker)
        finally:
            self.is_busy = False
        if wants is None:
            return
        began = time.monotonic()
        with self._context.wake:
            self._context.wake.wait(POLL_SECONDS)
        # Time lost to missing room or weights is recorded.
        if self._index == 0 and wants in ("room", "weights"):
            self._context.monitor.wait(time.monotonic() - began, wants=wants)

    def pause(self) -> None:
        """Wait after a task without a group, until the worker closes at most."""
        seconds = FAILED_PAUSE_SECONDS * 2.0 ** min(self._failures, 16)
        self._failures += 1
        self._context.closing.wait(min(MOST_PAUSE_SECONDS, seconds))

    def _act(self, worker: GroupRolloutWorker) -> Wants | None:
        """Run a task if there is one; otherwise return the reason to wait."""
        version = self._context.active()
        if self.command.desired != "running":
            return "command"
        if version is None or version[0] != self.command.epoch:
            return "weights"
        # With several sizes, the next task may need less than the largest group, or may exceed.
        least = 1 if self._has_several_sizes else self._group_sizes[0]
        has_room = self._context.credits.unspent >= least and self._context.has_room()
        task = self._context.supply.next(version, has_room=has_room)
        if task is None:
            return "task" if has_room else self._missing(version)
        about = {"rolldeck.lesson": task.lesson, "rolldeck.worker": self._context.worker_id}
        with tracing.span(f"{task.kind} {task.lesson}", about):
            try:
                if task.kind == "evaluate":
                    self._evaluate(worker, task, version)
                elif not self._train(worker, task, version):
                    return self._missing(version)
            except SamplingStopped:
                pass
            except RolldeckError as failure:
                self._context.events.add(
                    "outcome_lost",
                    f"The outcome of {task.kind} of {task.lesson} was not recorded: {failure}",
                    level="warning",
                    lesson=task.lesson,
                )
        return None

    def _missing(self, version: Version) -> Wants:
        """Return what a worker without credits waits for."""
        return "weights" if version[1] < self.command.policy_step else "room"

    @property
    def _has_several_sizes(self) -> bool:
        """Whether groups of the run differ in size, by lesson or by what fails."""
        language = self._context.config.language
        return len(self._group_sizes) > 1 or (language is not None and language.shrinks)

    @property
    def _group_sizes(self) -> list[int]:
        language = self._context.config.language
        return language.group_sizes if language else [1]

    def _evaluate(self, worker: GroupRolloutWorker, task: RolloutTask, version: Version) -> None:
        context, language = self._context, self._context.config.language
        began, lease = time.monotonic(), Lease(task.evaluation, task.fence)
        renewer = LeaseRenewer(
            lambda: context.curriculum.renew_evaluation(lease.evaluation, lease.fence),
            lease_seconds=language.evaluation.lease_seconds if language else 120.0,
            on_lost=lambda refusal: context.events.add(
                "evaluation_lease_lost",
                f"The evaluation of {task.lesson} is leased to another worker: {refusal}",
                level="warning",
                lesson=task.lesson,
            ),
        )
        with renewer:
            _, batch = worker.evaluate_lesson(
                task.lesson,
                n_examples=task.examples,
                eval_type="eval",
                rng=Draw(task.seed, task.first_example),
                policy_version=version,
                worker_id=self._context.worker_id,
                n_generations=task.generations,
                lease=lease,
            )
        self._context.monitor.record("infer", time.monotonic() - began, time.monotonic())
        if batch is not None:
            self._count(batch)

    def _train(self, worker: GroupRolloutWorker, task: RolloutTask, version: Version) -> bool:
        """Run a training task; return False if there is no room for a group of it."""
        room = self._context.credits
        count = room.reserve(
            groups=task.examples,
            group_size=task.generations,
            may_exceed=self._has_several_sizes,
        )
        self._context.supply.return_unstarted(task, begun=count)
        if not count:
            return False
        sent, unused = list[RolloutGroup](), list(numbers_of(task))[:count]
        try:
            try:
                batch, metrics, losses, failure = self._sample(worker, task, version, count)
                if batch is not None:
                    self._count(batch)
                    sent = self._hand_over(batch, losses.problems)
            finally:
                room.settle(sequences=count * task.generations, handed_over=_sequences(sent))
            delivered = {group.number for group in sent}
            unused = [number for number in unused if number not in delivered]
            if batch is not None:
                lost = _by_reason(losses.problems, unused, "group_invalid")
                # The curriculum emits the events about lessons that move.
                worker.update_training_stats(task.lesson, batch, metrics, losses, lost)
            else:
                is_whole = failure is not None  # else its rollouts failed, as far as it has faults
                if failure is None and losses.faults:
                    failure = LessonFailed(losses.faults[0].kind, losses.faults[0].message)
                reason = storable(failure.kind) if failure else "group_invalid"
                lost = _by_reason(losses.problems, unused, reason)
                self._report_failure(
                    worker, task, version, failure, lost, None if is_whole else losses
                )
        finally:
            self._context.supply.release(task.lesson, unused)
        if batch is None:
            self.pause()
        else:
            self._failures = 0
            self._micro_evaluate(worker, task, version)
        return True

    def _sample(
        self, worker: GroupRolloutWorker, task: RolloutTask, version: Version, count: int
    ) -> tuple[RolloutBatch | None, Metrics | None, Losses, LessonFailed | None]:
        """Sample the first `count` problems; count the rollouts that are lost.

        Returns:
            The batch and its figures, if a group is valid; the losses; why the lesson failed.
        """
        losses = Losses()

        def keep(found: Losses) -> None:
            nonlocal losses
            losses = found

        batch, metrics, failure, began = None, None, None, time.monotonic()
        try:
            batch, metrics = worker.sample_batch(
                task.lesson,
                n_examples=count,
                n_generations=task.generations,
                mode="train",
                rng=Draw(task.seed, task.first_example),
                policy_version=version,
                worker_id=self._context.worker_id,
                on_losses=keep,
            )
        except LessonFailed as found:
            failure = found
        except SamplingStopped:
            if not self._context.closing.is_set():
                # The other loop has ended the engine: no problem is at fault.
                lost = {"inference_failed": list(numbers_of(task))[:count]}
                with suppress(RolldeckError):
                    self._report_failure(worker, task, version, None, lost)
            raise
        except InferenceFailed as unavailable:
            # The next turn builds a new engine; the platform knows that no problem is at fault.
            lost = {"inference_failed": list(numbers_of(task))[:count]}
            with suppress(RolldeckError):  # the next request for a task returns them as well
                self._report_failure(worker, task, version, unavailable, lost)
            raise
        self._context.monitor.record("infer", time.monotonic() - began, time.monotonic())
        self._drop_losses(losses)
        known = (len(batch.groups) if batch else 0) + losses.dropped
        reason = "group_invalid" if known else "nothing_valid"
        self._drop((count - known) * task.generations, reason)
        return batch, metrics, losses, failure

    def _report_failure(
        self,
        worker: GroupRolloutWorker,
        task: RolloutTask,
        version: Version,
        failure: LessonFailed | InferenceFailed | None,
        lost: Mapping[str, list[int]],
        losses: Losses | None = None,
    ) -> None:
        """Record a training task without a group; `lost` has the problems by reason."""
        worker.report_failure(
            task.lesson,
            failure,
            draw=Draw(task.seed, task.first_example),
            policy_version=version,
            worker_id=self._context.worker_id,
            losses=losses,
            lost=lost,
        )

    def _hand_over(
        self, batch: RolloutBatch, lost: defaultdict[str, list[int]]
    ) -> list[RolloutGroup]:
        """Send the groups that a trainer can use, and return them; add the others to `lost`."""
        command, groups = self.command, list[RolloutGroup]()

        def drop(some: Sequence[RolloutGroup], reason: str) -> None:
            self._drop(_sequences(some), reason)
            lost[reason] += [one.number for one in some if one.number is not None]

        for group in batch.groups:
            epoch, step = group.policy_version
            # The platform would refuse such groups.
            if epoch != command.epoch:
                drop([group], "new_epoch")
            elif command.policy_step - step > self._context.config.buffer.max_staleness:
                drop([group], "stale_version")
            else:
                groups.append(group)
        language = self._context.config.language
        if language is not None and not language.keeps_zero_variance:
            groups, alike = split_by_variance(groups, rewards_of=lambda group: group.rewards)
            drop(alike, "zero_variance")
        # A push has groups of one size, so that its receipt counts sequences exactly.
        for size in sorted({len(group.rollouts) for group in groups}, reverse=True):
            alike = [group for group in groups if len(group.rollouts) == size]
            self._context.outbox.send(alike, lesson=batch.metadata.lesson)
        return groups

    def _micro_evaluate(
        self, worker: GroupRolloutWorker, task: RolloutTask, version: Version
    ) -> None:
        """Evaluate the current lesson every `micro_every_batches` batches, for display only."""
        language = self._context.config.language
        every = language.evaluation.micro_every_batches if language else 0
        counted = self._context.counted
        with counted.lock:
            counted.batches += 1
            is_due = every > 0 and counted.batches % every == 0
        if language is None or not is_due:
            return
        seed = evaluation_seed(seed=self._context.config.seed, lesson=task.lesson)
        _, batch = worker.evaluate_lesson(
            task.lesson,
            n_examples=language.evaluation.micro_examples,
            eval_type="micro_eval",
            rng=Draw(seed),
            policy_version=version,
            worker_id=self._context.worker_id,
        )
        if batch is not None:
            self._count(batch)

    def _count(self, batch: RolloutBatch) -> None:
        counted, mode = self._context.counted, batch.metadata.mode
        with counted.lock:
            counted.tokens += batch.tokens
            counted.episodes += len(batch.rollouts)
            for rollout in batch.rollouts:
                counted.statistics.add(
                    Episode(
                        environment=batch.metadata.lesson,
                        total_return=rollout.reward,
                        discounted_return=rollout.reward,
                        length=rollout.own_tokens,
                        outcome="truncated" if rollout.is_truncated else "terminated",
                        mode=mode,
                        policy_step=batch.policy_version[1],
                    )
                )
        self.episodes += len(batch.rollouts)

    def _drop_losses(self, losses: Losses) -> None:
        for kind, rollouts in losses.failed.items():
            self._drop(rollouts, kind)
        self._drop(losses.siblings, "short_group")

    def _drop(self, episodes: int, reason: str) -> None:
        if episodes:
            with self._context.counted.lock:
                self._context.counted.dropped[reason] += episodes


def _sequences(groups: Sequence[RolloutGroup]) -> int:
    return sum(len(group.rollouts) for group in groups)


def _by_reason(
    lost: Mapping[str, list[int]], numbers: Sequence[int], reason: str
) -> dict[str, list[int]]:
    """Return the problems of `numbers` by the reason of their loss, or by `reason`."""
    rest = set(numbers)
    found = dict[str, list[int]]()
    for name, some in lost.items():
        if mine := sorted(rest.intersection(some)):
            found[name] = mine
            rest.difference_update(mine)
    if rest:
        found[reason] = sorted([*found.get(reason, []), *rest])
    return found
