"""Task set of verifiers whose rewards fail in a configured way."""

import asyncio
import os
import sys
from collections.abc import Iterator

import verifiers.v1 as vf

__all__ = ["FailingTaskset"]


class FailingConfig(vf.TasksetConfig):
    """Way of failing: raise, exit, hang, nan or print."""

    how: str = "raise"


class FailingData(vf.TaskData):
    """The way of failing."""

    how: str


class FailingTask(vf.Task[FailingData]):
    """Reward that fails."""

    @vf.reward
    async def reward(self) -> float:
        """Fail."""
        how = self.data.how
        if how == "exit":
            sys.stderr.write("out of cheese\n")
            sys.stderr.flush()
            os._exit(3)
        if how == "hang":
            await asyncio.sleep(3600)
        if how == "raise":
            raise RuntimeError("no cheese")
        if how == "print":
            sys.stdout.write("cheese\n")
            sys.stdout.flush()
        return float("nan") if how == "nan" else 0.25


class FailingTaskset(vf.Taskset[FailingTask, FailingConfig]):
    """One task."""

    def load(self) -> Iterator[FailingTask]:
        """Yield the task."""
        data = FailingData(prompt="Cheese?", how=self.config.how)
        yield FailingTask(data, self.config.task)
