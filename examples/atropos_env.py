r"""An Atropos environment, unmodified: it generates at `rolldeck serve` and pushes to the deck.

Nothing here knows of Rolldeck but two URLs. In a virtual environment of its own:

    pip install atroposlib==0.4.0
    python examples/atropos_env.py serve --env.rollout_server_url http://127.0.0.1:8000 \
        --env.tokenizer_name checkpoints/tiny --openai.base_url http://127.0.0.1:8001/v1 \
        --openai.model_name tiny --openai.tokenizer_name checkpoints/tiny

The task is to say digits: an answer's score is the share of its characters that are some.
"""

import random
from typing import Any

from atroposlib.envs.base import APIServerConfig, BaseEnv, BaseEnvConfig, ScoredDataGroup

MOST_TOKENS = 12
"""Of an answer."""


class DigitsEnv(BaseEnv):
    """One prompt, `group_size` answers, a score each."""

    name = "digits"

    @classmethod
    def config_init(cls) -> tuple[BaseEnvConfig, list[APIServerConfig]]:
        """Return what holds unless the command line says otherwise."""
        config = BaseEnvConfig(
            group_size=8,
            max_token_length=64,
            max_num_workers=4,
            total_steps=1000,
            steps_per_eval=1_000_000,
            use_wandb=False,
            wandb_name="digits",
            include_messages=True,
        )
        # SGLang's route gives tokens with their log probabilities, which training needs.
        server = APIServerConfig(
            server_type="sglang",
            base_url="http://127.0.0.1:8001/v1",
            model_name="tiny",
            api_key="-",
            num_requests_for_eval=4,
        )
        return config, [server]

    async def setup(self) -> None:
        """Have nothing to load."""

    async def get_next_item(self) -> dict[str, str]:
        """Return a prompt."""
        return {"prompt": f"say {random.choice(['one', 'two', 'some'])}"}  # noqa: S311 no secret

    async def collect_trajectories(
        self, item: dict[str, str]
    ) -> tuple[ScoredDataGroup, list[dict[str, str]]]:
        """Let the policy answer a prompt, and score each answer."""
        asked = [{"role": "user", "content": item["prompt"]}]
        async with self.server.managed_server(tokenizer=self.tokenizer) as managed:
            said = await managed.chat_completion(
                messages=asked, n=self.config.group_size, max_tokens=MOST_TOKENS, temperature=1.0
            )
            nodes = managed.get_state()["nodes"]
        texts = [choice.message.content or "" for choice in said.choices]
        group: dict[str, Any] = {
            "tokens": [node.tokens for node in nodes],
            "masks": [node.masked_tokens for node in nodes],
            "inference_logprobs": [node.logprobs for node in nodes],
            "scores": [score(text) for text in texts],
            "messages": [[*asked, {"role": "assistant", "content": text}] for text in texts],
        }
        mean = sum(group["scores"]) / len(texts)
        group["advantages"] = [
            [score - mean] * len(node.tokens)
            for score, node in zip(group["scores"], nodes, strict=True)
        ]
        return ScoredDataGroup(**group), []

    async def evaluate(self, *args: Any, **kwargs: Any) -> None:
        """Have nothing to evaluate."""


def score(text: str) -> float:
    """Return the share of digits."""
    return sum(character.isdigit() for character in text) / max(1, len(text))


if __name__ == "__main__":
    DigitsEnv.cli()
