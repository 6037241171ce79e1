"""An environment of Atropos that samples its answers itself and needs no inference server.

It runs as a file, in an environment with atroposlib and without the packages of this repository.
"""

import random
from typing import Any

from atroposlib.envs.base import APIServerConfig, BaseEnv, BaseEnvConfig, ScoredDataGroup


class Coins(BaseEnv):
    """Groups of eight answers of one token; token 1 is right."""

    name = "coins"

    @classmethod
    def config_init(cls) -> tuple[BaseEnvConfig, list[APIServerConfig]]:
        """Return the defaults of the command line."""
        config = BaseEnvConfig(
            tokenizer_name="tokenizer",
            group_size=8,
            max_token_length=8,
            max_num_workers=2,
            total_steps=1000,
            steps_per_eval=1_000_000,
            use_wandb=False,
            wandb_name="coins",
        )
        return config, [APIServerConfig(model_name="none", api_key="-", base_url="http://none")]

    async def setup(self) -> None:
        """Load nothing; required by Atropos."""

    async def get_next_item(self) -> int:
        """Return the token of the prompt."""
        return 0

    async def collect_trajectories(self, item: int) -> tuple[ScoredDataGroup, list[int]]:
        """Sample answers, of which at least one differs from the others."""
        answers = [0, 1, *random.choices([0, 1], k=6)]
        group: dict[str, Any] = {
            "tokens": [[item, answer] for answer in answers],
            "masks": [[-100, answer] for answer in answers],
            "scores": [float(answer) for answer in answers],
        }
        return ScoredDataGroup(**group), []

    async def evaluate(self, *args: Any, **kwargs: Any) -> None:
        """Evaluate nothing; required by Atropos."""


if __name__ == "__main__":
    Coins.cli()
