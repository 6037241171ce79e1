"""An Atropos environment whose trajectories take a quarter of a second."""

import asyncio
from typing import Any

from atroposlib.envs.base import ScoredDataItem

from tests.contract.single_trajectory_environment import SingleTrajectoryEnv


class SlowEnv(SingleTrajectoryEnv):
    """Environment that produces about eight groups per second with two workers."""

    async def collect_trajectory(self, item: int) -> tuple[ScoredDataItem, list[Any]]:
        """Return one trajectory after a quarter of a second."""
        await asyncio.sleep(0.25)
        return await super().collect_trajectory(item)


if __name__ == "__main__":
    SlowEnv.cli()
