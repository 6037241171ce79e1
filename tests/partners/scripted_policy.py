"""A policy that answers with fixed texts, in place of a trained model."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from rolldeck.wire import ReplicaReport
from rollouts.fleet.engine.engine import Answer, Prompt, Version
from rollouts.fleet.engine.tokenizers import Tokenizer

Script = Callable[[str], str]


class ScriptedServer:
    """An `InferenceServer` whose answers are a function of the prompt's text."""

    def __init__(self, tokenizer: Tokenizer, script: Script, *, version: Version) -> None:
        self._tokenizer, self._script = tokenizer, script
        self.version = version
        self.prompts: list[str] = []

    def generate(
        self, prompts: Sequence[Prompt], *, stop: threading.Event, timeout_seconds: float
    ) -> list[list[Answer]]:
        del stop, timeout_seconds
        return [[self._answer(prompt) for _ in range(prompt.answers)] for prompt in prompts]

    def _answer(self, prompt: Prompt) -> Answer:
        text = self._tokenizer.decode(prompt.tokens)
        self.prompts.append(text)
        tokens = [*self._tokenizer.encode(self._script(text)), self._tokenizer.end]
        return Answer(
            request=0,
            index=0,
            tokens=tokens,
            logprobs=[-0.5 - place / 100 for place in range(len(tokens))],
            versions=[self.version] * len(tokens),
            finish="stop",
        )

    def update_weights(self, tensors: Any, version: Version) -> None:
        del tensors
        self.version = version

    def unanswered_seconds(self) -> float:
        return 0.0

    def outage(self) -> str:
        return ""

    def replicas(self) -> list[ReplicaReport]:
        return []

    def wait_until_ready(self, *, timeout_seconds: float, stop: threading.Event) -> bool:
        del timeout_seconds, stop
        return True

    def rest(self) -> None:
        """Do nothing: there is no engine."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
