"""The example's Atropos environment with additional distillation fields."""

from typing import Any

from atroposlib.envs.base import ScoredDataGroup

from examples.atropos_env import DigitsEnv


class DistillingEnv(DigitsEnv):
    """Environment with a teacher: half the policy's log probability, and token 0 for the rest."""

    async def collect_trajectories(
        self, item: dict[str, str]
    ) -> tuple[ScoredDataGroup, list[dict[str, str]]]:
        """Collect answers to a prompt; add two tokens of the teacher to each token."""
        group: dict[str, Any]
        group, backlog = await super().collect_trajectories(item)
        group["distill_token_ids"] = [[[token, 0] for token in row] for row in group["tokens"]]
        group["distill_logprobs"] = [
            [[2 * drawn, -0.5] for drawn in row] for row in group["inference_logprobs"]
        ]
        return ScoredDataGroup(**group), backlog


if __name__ == "__main__":
    DistillingEnv.cli()
