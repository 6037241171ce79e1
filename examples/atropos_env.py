r"""Unmodified Atropos environment that generates with `rolldeck inference` and pushes to Rolldeck.

Only two URLs refer to Rolldeck. Run it in a separate virtual environment:

    pip install atroposlib==0.4.0
    python examples/atropos_env.py serve --env.rollout_server_url http://127.0.0.1:8000 \
        --env.tokenizer_name checkpoints/tiny --openai.base_url http://127.0.0.1:8001/v1 \
        --openai.model_name tiny --openai.tokenizer_name checkpoints/tiny

The task is to write digits: an answer's score is the share of digits among its characters.
"""

import random
from typing import Any

from atroposlib.envs.base import APIServerConfig, BaseEnv, BaseEnvConfig, ScoredDataGroup

MOST_TOKENS = 12
"""Maximum tokens of an answer."""


class DigitsEnv(BaseEnv):
    """An environment with one prompt, `group_size` answers, and a score for each."""

    name = "digits"

    @classmethod
    def config_init(cls) -> tuple[BaseEnvConfig, list[APIServerConfig]]:
        """Return the defaults of the command line."""
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
        # SGLang's route returns tokens with log probabilities, which training needs.
        server = APIServerConfig(
            server_type="sglang",
            base_url="http://127.0.0.1:8001/v1",
            model_name="tiny",
            api_key="-",
            num_requests_for_eval=4,
        )
        return config, [server]

    async def setup(self) -> None:
        """Load nothing; required by Atropos."""

    async def get_next_item(self) -> dict[str, str]:
        """Return a prompt."""
        return {"prompt": f"say {random.choice(['one', 'two', 'some'])}"}  # noqa: S311 no secret

    async def collect_trajectories(
        self, item: dict[str, str]
    ) -> tuple[ScoredDataGroup, list[dict[str, str]]]:
        """Generate answers to a prompt, and score each."""
        messages = [{"role": "user", "content": item["prompt"]}]
        async with self.server.managed_server(tokenizer=self.tokenizer) as managed:
            completion = await managed.chat_completion(
                messages=messages, n=self.config.group_size, max_tokens=MOST_TOKENS, temperature=1.0
            )
            nodes = managed.get_state()["nodes"]
        texts = [choice.message.content or "" for choice in completion.choices]
        group: dict[str, Any] = {
            "tokens": [node.tokens for node in nodes],
            "masks": [node.masked_tokens for node in nodes],
            "inference_logprobs": [node.logprobs for node in nodes],
            "scores": [score(text) for text in texts],
            "messages": [[*messages, {"role": "assistant", "content": text}] for text in texts],
        }
        mean = sum(group["scores"]) / len(texts)
        group["advantages"] = [
            [score - mean] * len(node.tokens)
            for score, node in zip(group["scores"], nodes, strict=True)
        ]
        return ScoredDataGroup(**group), []

    async def evaluate(self, *args: Any, **kwargs: Any) -> None:
        """Evaluate nothing; required by Atropos."""


def score(text: str) -> float:
    """Return the share of digits."""
    return sum(character.isdigit() for character in text) / max(1, len(text))


if __name__ == "__main__":
    DigitsEnv.cli()
