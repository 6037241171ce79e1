"""A conversation in chat messages, as the exact tokens that the policy reads and writes."""

from dataclasses import dataclass, field

from rollouts.fleet.engine.engine import Answer, Version
from rollouts.fleet.groups.policy_context import PolicyContext


class TemplateChanged(ValueError):
    """The chat template changed an earlier turn, so the tokens cannot be continued."""


@dataclass(slots=True)
class Conversation:
    """Messages and tokens of one rollout so far; columns are ``[T]``."""

    policy: PolicyContext
    messages: list[dict[str, str]]
    prompt: str = ""
    text: str = ""
    """Full text, without the end tokens of answers."""
    tokens: list[int] = field(default_factory=list)
    is_own: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[Version | None] = field(default_factory=list)
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
        self.tokens += tokens
        self.is_own += [False] * len(tokens)
        self.logprobs += [0.0] * len(tokens)
        self.versions += [None] * len(tokens)
        self.text = rendered
        self.prompt = self.prompt or rendered

    def add_answer(self, answer: Answer) -> str:
        """Append an answer; return its text."""
        text = self.policy.text_of(answer)
        self.tokens += answer.tokens
        self.is_own += [True] * len(answer.tokens)
        self.logprobs += answer.logprobs
        self.versions += answer.versions
        self.messages.append({"role": "assistant", "content": text})
        self.text += text
        self.turns += 1
        return text
