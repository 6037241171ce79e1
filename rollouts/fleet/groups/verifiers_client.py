"""The policy as a client of the `verifiers` package, and its conversations.

This module imports the package, so only workers of such lessons import this module.
"""

import asyncio
import time
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from verifiers.clients import Client
from verifiers.types import Response, ResponseMessage

from rollouts.fleet.engine.engine import Answer, Version
from rollouts.fleet.groups.policy_context import PolicyContext
from rollouts.fleet.process.settings import derive_seed


@dataclass(slots=True)
class Conversation:
    """Tokens that one rollout has read and written so far; columns are ``[T]``."""

    seed: int
    prompt: str = ""
    text: str = ""
    """Full text, without the end tokens of answers, and without stops that are not scored."""
    tokens: list[int] = field(default_factory=list)
    is_own: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[Version | None] = field(default_factory=list)
    turns: int = 0
    is_truncated: bool = False

    def add_prompt(self, tokens: list[int], text: str) -> None:
        """Append the text before the next answer."""
        self.tokens += tokens
        self.is_own += [False] * len(tokens)
        self.logprobs += [0.0] * len(tokens)
        self.versions += [None] * len(tokens)
        self.text = text
        self.prompt = self.prompt or text

    def add_answer(self, answer: Answer, text: str) -> None:
        """Append an answer."""
        self.tokens += answer.tokens
        self.is_own += [True] * len(answer.tokens)
        self.logprobs += answer.logprobs
        self.versions += answer.versions
        self.text += text
        self.turns += 1
        self.is_truncated = answer.finish == "length"


class PolicyClient(Client):
    """Client that samples the turns of one rollout, continuing its exact tokens."""

    def __init__(self, policy: PolicyContext, conversation: Conversation, pool: Executor) -> None:
        super().__init__(policy)
        self._policy, self._pool = policy, pool
        self.conversation = conversation

    def setup_client(self, config: Any) -> Any:
        """Raise TypeError: the policy is fixed."""
        raise TypeError(f"the policy is fixed and cannot be configured with {config!r}")

    async def to_native_tool(self, tool: Any) -> Any:
        """Raise TypeError: the chat template does not support tools."""
        raise TypeError(f"{tool.name}: tools are not supported")

    async def to_native_prompt(self, messages: Any) -> tuple[str, dict[str, Any]]:
        """Return the conversation as text to be continued."""
        if isinstance(messages, str):
            return messages, {}
        turns = [{"role": message.role, "content": _plain(message.content)} for message in messages]
        if [turn["role"] for turn in turns] == ["text"]:
            return turns[0]["content"], {}
        return self._policy.tokenizer.render(turns), {}

    async def get_native_response(
        self,
        prompt: str,
        model: str,  # noqa: ARG002 there is only one
        sampling_args: Any,  # noqa: ARG002 the lesson sets them
        tools: Any = None,  # noqa: ARG002 refused above
        **_: Any,
    ) -> Answer:
        """Sample the policy's continuation of `prompt`.

        Raises:
            ValueError: If the prompt does not start with the conversation so far.
        """
        talk = self.conversation
        if not prompt.startswith(talk.text):
            raise ValueError("the environment changed the conversation so far")
        tokens = self._policy.tokenizer.encode(prompt.removeprefix(talk.text))
        if talk.tokens and tokens and talk.tokens[-1] == tokens[0] == self._policy.tokenizer.end:
            # Both the template and the policy have ended the answer.
            tokens = tokens[1:]
        if len(talk.tokens) + len(tokens) >= self._policy.context_tokens:
            raise _overlong(f"{len(talk.tokens) + len(tokens)} tokens")
        talk.add_prompt(tokens, prompt)
        generation = self._policy.prompt(
            talk.tokens, answers=1, seed=derive_seed(talk.seed, str(talk.turns))
        )
        loop = asyncio.get_running_loop()
        [[answer]] = await loop.run_in_executor(self._pool, self._policy.generate, [generation])
        return answer

    async def raise_from_native_response(self, response: Answer) -> None:
        """Accept every answer."""

    async def from_native_response(self, response: Answer) -> Response:
        """Append an answer and return it as a message."""
        text = self._policy.text_of(response)
        self.conversation.add_answer(response, text)
        is_cut = self.conversation.is_truncated
        message = ResponseMessage(
            content=text, finish_reason="length" if is_cut else "stop", is_truncated=is_cut
        )
        return Response(
            id=f"turn-{self.conversation.turns}",
            created=int(time.time()),
            model="policy",
            message=message,
        )

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _plain(content: Any) -> str:
    """Return the text of a message.

    Raises:
        ValueError: If the message has parts other than text.
    """
    if content is None or isinstance(content, str):
        return content or ""
    kinds = {part.type for part in content}
    if kinds - {"text"}:
        raise ValueError(f"unsupported message parts: {', '.join(sorted(kinds - {'text'}))}")
    return "".join(part.text for part in content)


def _overlong(text: str) -> Exception:
    from verifiers.errors import OverlongPromptError

    error: Exception = OverlongPromptError(text)
    return error
