"""What an environment may ask of the policy: to go on from some tokens."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rollouts.fleet.engine.engine import Answer, Prompt
from rollouts.fleet.engine.sampling import SamplingParams
from rollouts.fleet.engine.tokenizers import Tokenizer
from rollouts.fleet.groups.errors import SamplingStopped
from rollouts.fleet.inference.contract import InferenceFailed, InferenceServer
from runs.core.language_config import SamplingConfig

GENERATE_SECONDS: Final = 600.0
"""How long one turn of a batch may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyContext:
    """The policy as one batch sees it; threads may share it."""

    server: InferenceServer
    tokenizer: Tokenizer
    sampling: SamplingConfig
    context_tokens: int
    """That a prompt and all that follows it may have together."""
    stop: threading.Event

    def ask(self, tokens: Sequence[int], *, answers: int, seed: int) -> Prompt:
        """Return a prompt to be answered by this lesson's sampling parameters.

        Args:
            tokens: So far, at least one and fewer than the context.
            answers: Different ones.
            seed: Of the draws, in [0, 2³¹): the same seed gives the same answers.
        """
        sampling = SamplingParams(
            max_tokens=self.sampling.max_tokens,
            temperature=self.sampling.temperature,
            top_p=self.sampling.top_p,
            top_k=self.sampling.top_k,
            stop_tokens=frozenset([self.tokenizer.end]),
            seed=seed,
        )
        return Prompt(tokens=tuple(tokens), sampling=sampling, answers=answers)

    def generate(self, prompts: Sequence[Prompt]) -> list[list[Answer]]:
        """Return the answers to each prompt, all of them ended by themselves.

        Raises:
            SamplingStopped: If the worker is to stop.
            InferenceFailed: If the server fails.
        """
        if self.stop.is_set():
            raise SamplingStopped
        try:
            found = self.server.generate(prompts, stop=self.stop, timeout_seconds=GENERATE_SECONDS)
        except InferenceFailed as failure:
            # A server that is closed in the middle of a call fails it.
            if self.stop.is_set():
                raise SamplingStopped from failure
            raise
        if any(answer.finish == "cancelled" for answers in found for answer in answers):
            raise SamplingStopped
        return found
