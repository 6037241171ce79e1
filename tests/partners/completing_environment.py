"""An Atropos environment that generates with `server_type` trl, which returns texts only."""

from atroposlib.envs.base import APIServerConfig, BaseEnvConfig, ScoredDataGroup

from examples.atropos_env import MOST_TOKENS, DigitsEnv, score


class CompletingEnv(DigitsEnv):
    """Environment that tokenizes the answers itself."""

    name = "completing"

    @classmethod
    def config_init(cls) -> tuple[BaseEnvConfig, list[APIServerConfig]]:
        """Return the defaults of the command line."""
        config, _ = super().config_init()
        server = APIServerConfig(server_type="trl", api_key="-", num_requests_for_eval=4)
        return config, [server]

    async def collect_trajectories(
        self, item: dict[str, str]
    ) -> tuple[ScoredDataGroup, list[dict[str, str]]]:
        """Generate answers to a prompt, and score each."""
        messages = [{"role": "user", "content": item["prompt"]}]
        completion = await self.server.chat_completion(
            messages=messages, n=self.config.group_size, max_tokens=MOST_TOKENS, temperature=1.0
        )
        prompt = self.tokenizer.encode(item["prompt"])
        texts = [choice.message.content or "0" for choice in completion.choices]
        answers = [self.tokenizer.encode(text) for text in texts]
        group = {
            "tokens": [prompt + answer for answer in answers],
            "masks": [[-100] * len(prompt) + answer for answer in answers],
            "scores": [score(text) for text in texts],
            "messages": [[*messages, {"role": "assistant", "content": text}] for text in texts],
        }
        return ScoredDataGroup(**group), []


if __name__ == "__main__":
    CompletingEnv.cli()
