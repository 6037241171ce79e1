"""Fetch tasks for the loops of a worker, and keep those without room in the buffer."""

import threading
import time
from collections import deque
from typing import Final

from msgspec.structs import replace

from rolldeck.lessons import RolloutTask, TaskRequest
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.groups.curriculum import Curriculum

MOST_KEPT: Final = 4


class TaskSupply:
    """Tasks of one worker, shared by its loops.

    Training needs room in the buffer; evaluation does not. Without room, the curriculum is asked
    once per version: a due evaluation is returned at once, and other tasks are kept.
    """

    def __init__(self, curriculum: Curriculum, *, worker: str) -> None:
        self._curriculum = curriculum
        self._worker = worker
        self._lock = threading.Lock()
        self._kept: deque[RolloutTask] = deque()
        self._requested_at: Version | None = None
        self._ask_again_at = 0.0
        self.reason = ""
        """Why there is no task; empty if there is one."""

    def next(self, version: Version, *, has_room: bool) -> RolloutTask | None:
        """Return a task to run now, or None.

        Args:
            version: Version that the worker uses.
            has_room: Whether a group may be started.
        """
        with self._lock:
            if has_room and self._kept:
                return self._kept.popleft()
            if time.monotonic() < self._ask_again_at:
                return None
            if not has_room and (version == self._requested_at or len(self._kept) >= MOST_KEPT):
                return None
            self._requested_at = version
        request = TaskRequest(worker=self._worker, epoch=version[0], policy_step=version[1])
        task = self._curriculum.next_task(request)
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
