"""The policy as environments see it: continue tokens, end answers, hold a conversation.

The tokens of an answer include those of its stop string or its stop token: the policy has sampled
them, and a trainer needs them to learn when to stop. The text that an environment scores excludes
them, unless the lesson sets `include_stop_str_in_output`, as in vLLM.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from rollouts.fleet.engine.engine import Answer, Prompt, SamplingParams
from rollouts.fleet.engine.tokenizers import TextStream, Tokenizer, TokenizerUnusable
from rollouts.fleet.groups.batches import TokenColumns
from rollouts.fleet.groups.errors import SamplingStopped
from rollouts.fleet.inference.contract import InferenceFailed, InferenceServer
from rollouts.tasks.rules.task import unknown_stop_token
from runs.config.rules.language_config import LanguageConfig, SamplingConfig

GENERATE_SECONDS: Final = 600.0
"""Time limit of one turn of a batch."""


def check_stop_tokens(language: LanguageConfig, *, vocab_size: int) -> None:
    """Check that the stop tokens of all lessons are in the vocabulary.

    Raises:
        TokenizerUnusable: With the field of the first unknown id.
    """
    wrong = unknown_stop_token(language, vocab_size=vocab_size)
    if wrong is not None:
        raise TokenizerUnusable(f"language.{wrong[0]}: {wrong[1]}")


def ended(answer: Answer, sampling: SamplingConfig, tokenizer: Tokenizer) -> Answer:
    """Return an answer without tokens after the one that completes its first stop string.

    A server that samples several tokens per step may return such tokens.
    """
    if not sampling.stop:
        return answer
    stream = TextStream(tokenizer, sampling.stop)
    for count in range(1, len(answer.tokens) + 1):
        stream.add(answer.tokens[:count])
        if stream.is_stopped:
            return replace(
                answer,
                tokens=answer.tokens[:count],
                logprobs=answer.logprobs[:count],
                versions=answer.versions[:count],
                finish="stop",
            )
    return answer


def scored_text(answer: Answer, sampling: SamplingConfig, tokenizer: Tokenizer) -> str:
    """Return the text of an answer as its environment scores it."""
    tokens, includes_stop = answer.tokens, sampling.include_stop_str_in_output
    if tokens and tokens[-1] in sampling.stop_token_ids and not includes_stop:
        tokens = tokens[:-1]
    stream = TextStream(tokenizer, sampling.stop, includes_stop=includes_stop)
    stream.add(tokens, is_last=True)
    return stream.text


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

        There are fewer tokens than the context, and at least one. Equal seeds in [0, 2³¹) give
        equal answers.
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


class TemplateChanged(ValueError):
    """The chat template changed an earlier turn, so the tokens cannot be continued."""


@dataclass(slots=True)
class Conversation(TokenColumns):
    """Messages and tokens of one rollout so far."""

    policy: PolicyContext
    messages: list[dict[str, str]]
    prompt: str = ""
    text: str = ""
    """Full text, without the end tokens of answers."""
    turns: int = 0
    is_truncated: bool = False
    """Whether the next prompt does not fit the context."""

    def extend(self) -> None:
        """Append the tokens of the messages since the last answer.

        A prompt that leaves no room in the context sets `is_truncated` and is not appended.

        Raises:
            TemplateChanged: If the rendered conversation does not continue the text so far.
        """
        rendered = self.policy.tokenizer.render(self.messages)
        if not rendered.startswith(self.text):
            raise TemplateChanged("the chat template changed an earlier turn")
        tokens = self.policy.tokenizer.encode(rendered.removeprefix(self.text))
        if self.tokens and tokens and self.tokens[-1] == tokens[0] == self.policy.tokenizer.end:
            # Both the template and the policy have ended the answer.
            tokens = tokens[1:]
        if len(self.tokens) + len(tokens) >= self.policy.context_tokens:
            self.is_truncated = True
            return
        self.add_given(tokens)
        self.text = rendered
        self.prompt = self.prompt or rendered

    def add_answer(self, answer: Answer) -> str:
        """Append an answer; return its text."""
        text = self.policy.text_of(answer)
        self.add_own(answer)
        self.messages.append({"role": "assistant", "content": text})
        self.text += text
        self.turns += 1
        return text
