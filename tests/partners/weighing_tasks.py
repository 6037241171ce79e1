"""Task set of verifiers with a tool and several turns: weigh a box, then name its weight."""

from collections.abc import Iterator

import verifiers.v1 as vf

__all__ = ["WeighingTaskset"]

WEIGHTS = {"red": 3, "green": 5, "blue": 8}


class ScaleToolset(vf.Toolset[vf.ToolsetConfig, vf.State]):
    """Scale with one tool."""

    @vf.tool
    async def weigh(self, box: str) -> str:
        """Return the weight of a box."""
        return f"{WEIGHTS[box]} kg" if box in WEIGHTS else f"no box {box}"


class WeighingData(vf.TaskData):
    """A box."""

    answer: str


class WeighingTask(vf.Task[WeighingData]):
    """Reward for the weight in the last reply."""

    @classmethod
    def toolsets(cls, config: vf.TaskConfig) -> list[vf.Toolset]:
        """Return the scale."""
        del config
        return [ScaleToolset(vf.ToolsetConfig())]

    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        """Return whether the last reply contains the weight."""
        return float(self.data.answer in trace.last_reply)


class WeighingTaskset(vf.Taskset[WeighingTask]):
    """A task per box."""

    def load(self) -> Iterator[WeighingTask]:
        """Yield the tasks."""
        for box, weight in WEIGHTS.items():
            data = WeighingData(prompt=f"How heavy is the {box} box?", answer=f"{weight} kg")
            yield WeighingTask(data, self.config.task)


if __name__ == "__main__":
    ScaleToolset.run()
