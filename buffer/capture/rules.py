"""Assemble the captured calls of a session into sequences.

An agent that calls a model through a proxy sends its whole context each time. The prompt of a call
therefore usually begins with an earlier call's prompt and answer. Such calls form one sequence, in
which only tokens written by the model are trained on. A rewritten context begins a new sequence.
If only the tokenization of an earlier answer changed, the call contains a repair: its prompt with
the sampled tokens. The repair applies if an earlier call of the session has these tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

IGNORED: Final = -100
"""Mask of a token that is not trained on."""
IGNORED_LOGPROB: Final = 1.0
"""Placeholder for the log probability of an ignored token, as in Atropos."""

_TOKEN_BYTES: Final = 8

Version = tuple[int, int]
"""Epoch and step of a policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedAnswer:
    """One answer to a call, as the model's tokens."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    versions: tuple[Version, ...] = ()
    """All versions that sampled a token; empty if the server does not report them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedCall:
    """One call of the model."""

    prompt: tuple[int, ...]
    answers: tuple[CapturedAnswer, ...]
    gap: str = ""
    """Description of what could not be captured; if set, the call has no answers."""
    repaired: tuple[int, ...] = ()
    """Prompt with the sampled tokens of an earlier call, of equal text; empty without a repair."""
    repaired_until: int = 0
    """End of these sampled tokens in `repaired`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedSequence:
    """A sequence of T tokens and the parts that the model wrote; lists have length T."""

    tokens: list[int]
    masks: list[int]
    """The token id if it is trained on, else :data:`IGNORED`."""
    logprobs: list[float]
    """Log probability if the token is trained on, else :data:`IGNORED_LOGPROB`."""
    answers: list[tuple[int, int]]
    """Answers that it holds, in order: numbers of the call and of its answer, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """The sequences and gaps of a session."""

    sequences: list[CapturedSequence]
    gaps: list[str]
    """One sentence for each part that could not be captured."""
    repairs: int
    """Number of calls that continue a sequence because of a repair."""
    oldest: Version | None
    """Oldest version that sampled a token; None if any call does not report it."""


@dataclass(slots=True, eq=False)
class _Node:
    place: tuple[int, int]
    """Numbers of the call and of its answer."""
    answer: CapturedAnswer
    prompt_length: int
    whole: bytes
    """Prompt and answer, as int64."""
    parent: "_Node | None"
    has_children: bool = False
    is_claimed: bool = False
    """Whether a sequence trains on the answer already."""

    def path(self) -> list["_Node"]:
        """Return this answer and the earlier answers in its prompt, latest first."""
        found, node = [self], self.parent
        while node is not None:
            found.append(node)
            node = node.parent
        return found


@dataclass(slots=True)
class _Tree:
    nodes: list[_Node] = field(default_factory=list)
    repairs: int = 0

    def add(self, call: int, captured: CapturedCall) -> None:
        prompt, parent = self._continued(captured)
        for index, answer in enumerate(captured.answers):
            whole = prompt + _packed(answer.tokens)
            length = len(prompt) // _TOKEN_BYTES
            self.nodes.append(_Node((call, index), answer, length, whole, parent))
        if parent is not None and captured.answers:
            parent.has_children = True

    def _continued(self, captured: CapturedCall) -> tuple[bytes, _Node | None]:
        """Return the prompt of a call, repaired if an earlier call confirms it, and its parent."""
        if captured.repaired:
            prompt = _packed(captured.repaired)
            parent = self._longest_in(prompt)
            if parent is not None and len(parent.whole) >= captured.repaired_until * _TOKEN_BYTES:
                self.repairs += 1
                return prompt, parent
        prompt = _packed(captured.prompt)
        return prompt, self._longest_in(prompt)

    def _longest_in(self, prompt: bytes) -> _Node | None:
        within = (node for node in self.nodes if prompt.startswith(node.whole))
        return max(within, key=lambda node: len(node.whole), default=None)


def assemble(calls: Sequence[CapturedCall]) -> Assembled:
    """Return the sequences of a session, in the order in which they began.

    Each token written by the model is trained on exactly once. If two sequences share a
    beginning, its tokens are trained on in the first of them.

    Args:
        calls: The calls in chronological order.
    """
    tree = _Tree()
    gaps = []
    for number, call in enumerate(calls):
        if call.gap:
            gaps.append(f"call {number}: {call.gap}")
        else:
            tree.add(number, call)
    leaves = [node for node in tree.nodes if not node.has_children]
    drawn = [node.answer for node in tree.nodes if node.answer.tokens]
    oldest = min((min(answer.versions) for answer in drawn if answer.versions), default=None)
    if not all(answer.versions for answer in drawn):
        oldest = None
    return Assembled(
        sequences=[_sequence(leaf) for leaf in leaves],
        gaps=gaps,
        repairs=tree.repairs,
        oldest=oldest,
    )


def _sequence(leaf: _Node) -> CapturedSequence:
    tokens = np.frombuffer(leaf.whole, dtype=np.int64)
    masks = np.full(len(tokens), IGNORED, dtype=np.int64)
    logprobs = np.full(len(tokens), IGNORED_LOGPROB)
    path = leaf.path()
    for node in path:
        if node.is_claimed:
            continue
        node.is_claimed = True
        written = slice(node.prompt_length, node.prompt_length + len(node.answer.tokens))
        masks[written] = tokens[written]
        logprobs[written] = node.answer.logprobs
    return CapturedSequence(
        tokens=tokens.tolist(),
        masks=masks.tolist(),
        logprobs=logprobs.tolist(),
        answers=[node.place for node in reversed(path)],
    )


def _packed(tokens: Sequence[int]) -> bytes:
    return np.asarray(tokens, dtype=np.int64).tobytes()
