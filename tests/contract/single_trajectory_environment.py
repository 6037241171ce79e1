"""An Atropos environment that implements `collect_trajectory` only, like many public ones."""

import itertools
from typing import Any

from atroposlib.envs.base import APIServerConfig, BaseEnv, BaseEnvConfig, ScoredDataItem

GROUP_SIZE = 4


class SingleTrajectoryEnv(BaseEnv):
    """Environment with trajectories of three tokens, without an inference server."""

    name = "single"

    @classmethod
    def config_init(cls) -> tuple[BaseEnvConfig, list[APIServerConfig]]:
        """Return the defaults of the command line."""
        config = BaseEnvConfig(
            group_size=GROUP_SIZE,
            max_token_length=64,
            max_num_workers=2,
            total_steps=1000,
            steps_per_eval=1_000_000,
            use_wandb=False,
            wandb_name="single",
        )
        server = APIServerConfig(
            base_url="http://127.0.0.1:9/v1", model_name="none", api_key="-", health_check=False
        )
        return config, [server]

    async def setup(self) -> None:
        """Initialize the counters of items and trajectories."""
        self.items, self.trajectories = itertools.count(), itertools.count(1)

    async def get_next_item(self) -> int:
        """Return the next item."""
        return next(self.items)

    async def collect_trajectory(self, item: int) -> tuple[ScoredDataItem, list[Any]]:
        """Return one trajectory with the required fields and its messages."""
        number = next(self.trajectories)
        trajectory: dict[str, Any] = {
            "tokens": [item, number, 3],
            "masks": [-100, number, 3],
            "scores": float(number % GROUP_SIZE),
            "messages": [
                {"role": "user", "content": f"item {item}"},
                {"role": "assistant", "content": "yes"},
            ],
        }
        return ScoredDataItem(**trajectory), []

    async def evaluate(self, *args: Any, **kwargs: Any) -> None:
        """Evaluate nothing."""


if __name__ == "__main__":
    SingleTrajectoryEnv.cli()
