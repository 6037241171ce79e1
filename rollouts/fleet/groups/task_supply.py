"""Tasks of a language worker, the leases of their problems, and its room in the buffer."""

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from rolldeck.lessons import RolloutTask, TaskRequest
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.groups.curriculum import Curriculum

MOST_KEPT: Final = 4


class Credits:
    """Granted room in the buffer; thread-safe.

    A credit allows one sequence to be started. It is either unspent or in use by a sequence
    being sampled. It is consumed when that sequence is handed over, and returned otherwise.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.unspent = 0
        self.spent = 0
        """Number of sequences being sampled."""

    def held(self) -> tuple[int, int]:
        """Return a consistent pair of unspent and spent credits; unspent may be negative."""
        with self._lock:
            return self.unspent, self.spent

    def grant(self, sequences: int) -> None:
        with self._lock:
            self.unspent += sequences

    def reserve(self, *, groups: int, group_size: int, may_exceed: bool = False) -> int:
        """Spend credits for up to `groups` whole groups; return how many groups fit.

        Args:
            groups: Groups to start.
            group_size: Sequences of each.
            may_exceed: Whether one group may exceed the credits, if any are unspent and nothing is
                being sampled. A remainder smaller than a lesson's group could otherwise keep a
                batch from being completed. Later grants repay the excess.
        """
        with self._lock:
            count = min(groups, max(0, self.unspent) // group_size)
            if may_exceed and not count and groups and self.unspent > 0 and not self.spent:
                count = 1
            self.unspent -= count * group_size
            self.spent += count * group_size
            return count

    def settle(self, *, sequences: int, handed_over: int) -> None:
        """Finish some sequences; the credits of those not handed over are returned."""
        with self._lock:
            self.spent -= sequences
            self.unspent += sequences - handed_over


class TaskSupply:
    """Tasks of one worker, shared by its loops.

    Training needs room in the buffer; evaluation does not. Without room, the curriculum is asked
    once per version: a due evaluation is returned at once, and other tasks are kept.
    """

    def __init__(self, curriculum: Curriculum, *, worker: str) -> None:
        self._curriculum = curriculum
        self._worker = worker
        self._lock, self._asking = threading.Lock(), threading.Lock()
        self._kept: deque[RolloutTask] = deque()
        self._held: defaultdict[str, Counter[int]] = defaultdict(Counter)
        """Leased problems by lesson. Two loops have one for a moment if it is assigned again."""
        self._requested_at: Version | None = None
        self._ask_again_at = 0.0
        self.reason = ""
        """Why there is no task; empty if there is one."""

    def next(self, version: Version, *, has_room: bool) -> RolloutTask | None:
        """Return a task to run now, or None; `has_room` tells whether a group may be started."""
        with self._lock:
            if has_room and self._kept:
                return self._kept.popleft()
            if time.monotonic() < self._ask_again_at:
                return None
            if not has_room and (version == self._requested_at or len(self._kept) >= MOST_KEPT):
                return None
            self._requested_at = version
        # One request at a time, so that each lists the problems of the answers before it.
        with self._asking:
            task = self._ask(version)
        with self._lock:
            if task.kind == "wait":
                self.reason = task.reason
                self._ask_again_at = time.monotonic() + task.wait_seconds
                return None
            self.reason = ""
            if task.kind == "train" and not has_room:
                self._kept.append(task)
                return None
        return task

    def _ask(self, version: Version) -> RolloutTask:
        with self._lock:
            held = {lesson: sorted(numbers) for lesson, numbers in self._held.items() if numbers}
        request = TaskRequest(
            worker=self._worker, epoch=version[0], policy_step=version[1], held=held
        )
        task = self._curriculum.next_task(request)
        if task.kind == "train":
            with self._lock:
                self._held[task.lesson].update(numbers_of(task))
        return task

    def release(self, lesson: str, numbers: Iterable[int]) -> None:
        """End the leases of problems that are delivered, or have no group to deliver."""
        with self._lock:
            held = self._held[lesson]
            for number in numbers:
                held[number] -= 1
                if held[number] <= 0:
                    del held[number]

    def return_unstarted(self, task: RolloutTask, *, begun: int) -> None:
        """Keep the examples of a task that were not started."""
        if begun < task.examples:
            rest = replace(
                task,
                first_example=task.first_example + begun,
                examples=task.examples - begun,
            )
            with self._lock:
                self._kept.appendleft(rest)


def numbers_of(task: RolloutTask) -> range:
    """Return the numbers of a task's problems."""
    return range(task.first_example, task.first_example + task.examples)
