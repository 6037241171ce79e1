"""Task set of verifiers: additions in one turn."""

from collections.abc import Iterator

import verifiers.v1 as vf

__all__ = ["AddingTaskset"]


class AddingData(vf.TaskData):
    """An addition."""

    answer: str


class AddingTask(vf.Task[AddingData]):
    """Reward for the sum, and the length of the reply."""

    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        """Return whether the reply is the sum."""
        return float(trace.last_reply == self.data.answer)

    @vf.metric
    async def reply_length(self, trace: vf.Trace) -> float:
        """Return the number of characters."""
        return float(len(trace.last_reply))


class AddingTaskset(vf.Taskset[AddingTask]):
    """Six additions."""

    def load(self) -> Iterator[AddingTask]:
        """Yield the tasks."""
        for number in range(6):
            data = AddingData(prompt=f"{number}+{number}=", answer=str(2 * number))
            yield AddingTask(data, self.config.task)
