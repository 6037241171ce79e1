"""Interface of the policy for environments: continue a sequence of tokens."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rollouts.fleet.engine.engine import Answer, Prompt, SamplingParams
from rollouts.fleet.engine.tokenizers import Tokenizer
from rollouts.fleet.groups.errors import SamplingStopped
from rollouts.fleet.groups.stop_texts import ended, scored_text
from rollouts.fleet.inference.contract import InferenceFailed, InferenceServer
from runs.config.rules.language_config import SamplingConfig

GENERATE_SECONDS: Final = 600.0
"""Time limit of one turn of a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyContext:
    """The policy as seen by one batch; thread-safe."""

    server: InferenceServer
    tokenizer: Tokenizer
    sampling: SamplingConfig
    context_tokens: int
    """Maximum length of a prompt and its continuation together."""
    stop: threading.Event

    def prompt(self, tokens: Sequence[int], *, answers: int, seed: int) -> Prompt:
        """Return a prompt with the sampling parameters of this lesson.

        Args:
            tokens: Tokens so far, at least one and fewer than the context.
            answers: Number of answers to sample.
            seed: Seed of the answers, in [0, 2³¹); equal seeds give equal answers.
        """
        sampling = SamplingParams(
            max_tokens=self.sampling.max_tokens,
            temperature=self.sampling.temperature,
            top_p=self.sampling.top_p,
            top_k=self.sampling.top_k,
            stop_tokens=frozenset([self.tokenizer.end, *self.sampling.stop_token_ids]),
            stop=tuple(self.sampling.stop),
            seed=seed,
        )
        return Prompt(tokens=tuple(tokens), sampling=sampling, answers=answers)

    def generate(self, prompts: Sequence[Prompt]) -> list[list[Answer]]:
        """Return the completed answers to each prompt; none has tokens after its stop string.

        Raises:
            SamplingStopped: If the worker is stopping.
            InferenceFailed: If the server fails.
        """
        if self.stop.is_set():
            raise SamplingStopped
        try:
            found = self.server.generate(prompts, stop=self.stop, timeout_seconds=GENERATE_SECONDS)
        except InferenceFailed as failure:
            # Closing the server fails calls in progress.
            if self.stop.is_set():
                raise SamplingStopped from failure
            raise
        if any(answer.finish == "cancelled" for answers in found for answer in answers):
            raise SamplingStopped
        return [
            [ended(answer, self.sampling, self.tokenizer) for answer in answers]
            for answers in found
        ]

    def text_of(self, answer: Answer) -> str:
        """Return the text of an answer to score, by default without its stop string or token."""
        return scored_text(answer, self.sampling, self.tokenizer)
