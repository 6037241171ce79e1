"""Rewards of many answers, in processes and threads."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

from rollouts.fleet.rewards.answers import Answered, RewardFailed
from rollouts.fleet.rewards.judge import Judge
from rollouts.fleet.rewards.worker import RewardWorker
from rollouts.tasks.rules.dataset_config import RewardConfig

JUDGED_AT_A_TIME: Final = 16
POLL_SECONDS: Final = 0.1
MOST_TIMEOUTS: Final = 3
"""Calls of a function in a batch that may exceed the limit; the others then fail at once."""
Scores = list[float]
"""Rewards of an answer in the order of the lesson's list."""


class RewardPool:
    """Reward functions of a lesson.

    Functions run in processes that hold no secrets and end when a call exceeds its limit. Judges
    are called from threads.
    """

    def __init__(self, rewards: Sequence[RewardConfig], *, processes: int) -> None:
        """Build each function once, so that errors appear before the first answer.

        Raises:
            RewardUnusable: If a function cannot be built on this machine.
        """
        self._rewards = list(rewards)
        self._judges = {
            place: Judge(one, place=place)
            for place, one in enumerate(rewards)
            if one.kind == "judge"
        }
        self._functions = {
            place: one for place, one in enumerate(rewards) if place not in self._judges
        }
        self._local = threading.local()
        self._workers: list[RewardWorker] = []
        self._calls = ThreadPoolExecutor(processes, thread_name_prefix="rewards")
        self._judged = ThreadPoolExecutor(JUDGED_AT_A_TIME, thread_name_prefix="judge")
        try:
            # Processes end with the thread that started them, so threads of the pool start them.
            if self._functions:
                self._calls.submit(self._start).result()
        except BaseException:
            self.close()
            raise

    def score(
        self, answers: Sequence[Answered], *, should_stop: Callable[[], bool]
    ) -> list[Scores | tuple[RewardConfig, RewardFailed]] | None:
        """Return the rewards of each answer, or its first failed reward; None if stopped."""
        timeouts = Counter[int]()
        futures = [self._submitted(answered, timeouts) for answered in answers]
        waiting = {future for row in futures for future in row}
        while waiting:
            if should_stop():
                for future in waiting:
                    future.cancel()
                return None
            _, waiting = wait(waiting, timeout=POLL_SECONDS)
        return [self._result(row) for row in futures]

    def close(self) -> None:
        """End the processes and connections; calls in progress fail."""
        for pool in (self._calls, self._judged):
            pool.shutdown(wait=False, cancel_futures=True)
        for worker in list(self._workers):
            worker.interrupt()
        # Without their processes the threads end at once.
        self._calls.shutdown(wait=True)
        for worker in self._workers:
            worker.kill()
        for judge in self._judges.values():
            judge.close()

    def _submitted(self, answered: Answered, timeouts: Counter[int]) -> list[Future[float]]:
        return [
            (self._judged if place in self._judges else self._calls).submit(
                self._called, place, answered, timeouts
            )
            for place in range(len(self._rewards))
        ]

    def _result(self, row: Sequence[Future[float]]) -> Scores | tuple[RewardConfig, RewardFailed]:
        scores = []
        for config, future in zip(self._rewards, row, strict=True):
            error = future.exception()
            if isinstance(error, RewardFailed):
                return config, error
            scores.append(future.result())
        return scores

    def _worker(self) -> RewardWorker:
        """Return the worker of this thread."""
        if not hasattr(self._local, "worker"):
            self._local.worker = RewardWorker(self._functions)
            self._workers.append(self._local.worker)
        worker: RewardWorker = self._local.worker
        return worker

    def _start(self) -> None:
        self._worker().start()

    def _called(self, place: int, answered: Answered, timeouts: Counter[int]) -> float:
        """Return a reward; a function that hangs on every answer must not delay other lessons."""
        if timeouts[place] >= MOST_TIMEOUTS:
            raise RewardFailed(
                "reward_timeout",
                f"exceeded {self._rewards[place].limit_seconds:g} s for {timeouts[place]} answers "
                "of the batch; the others are not scored",
            )
        try:
            if place in self._judges:
                return self._judges[place].score(answered)
            return self._worker().score(place, answered)
        except RewardFailed as error:
            timeouts[place] += error.kind == "reward_timeout"
            raise
