"""Assemble the captured calls of a session into sequences.

An agent that calls a model through a proxy sends its whole context each time. The prompt of a call
therefore usually begins with an earlier call's prompt and answer. Such calls form one sequence, in
which only tokens written by the model are trained on. A rewritten context begins a new sequence.
If only the tokenization of an earlier answer changed, the call contains a repair: its prompt with
the sampled tokens. The repair applies if an earlier call of the session has these tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec import Struct

from rolldeck.captures import Answer, CallPush

IGNORED: Final = -100
"""Mask of a token that is not trained on."""
IGNORED_LOGPROB: Final = 1.0
"""Placeholder for the log probability of an ignored token, as in Atropos."""

_TOKEN_BYTES: Final = 8

Version = tuple[int, int]
"""Epoch and step of a policy."""


class CapturedRow(Struct, frozen=True, kw_only=True):
    """A sequence assembled from a session's calls; lists have length T."""

    tokens: list[int]
    masks: list[int]
    """The token id if it is trained on, else :data:`IGNORED`."""
    logprobs: list[float]
    """Log probability if the token is trained on, else :data:`IGNORED_LOGPROB`."""
    answers: list[tuple[int, int]]
    """Numbers of the call and of its choice, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """The sequences and gaps of a session."""

    sequences: list[CapturedRow]
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
    answer: Answer
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


def assemble(calls: Sequence[CallPush]) -> Assembled:
    """Return the sequences of a session, in the order in which they began.

    Each token written by the model is trained on exactly once. If two sequences share a
    beginning, its tokens are trained on in the first of them.

    Args:
        calls: The calls in chronological order.
    """
    nodes: list[_Node] = []
    gaps, repairs = [], 0
    for number, call in enumerate(calls):
        if call.gap:
            gaps.append(f"call {number}: {call.gap}")
            continue
        prompt = _packed(call.repaired_prompt)
        parent = _longest_in(nodes, prompt)
        if call.repair is not None:
            # A repair applies if an earlier call has all of its sampled tokens.
            repaired_until = call.repair.start + len(call.repair.tokens)
            if parent is not None and len(parent.whole) >= repaired_until * _TOKEN_BYTES:
                repairs += 1
            else:
                prompt = _packed(call.prompt_tokens)
                parent = _longest_in(nodes, prompt)
        length = len(prompt) // _TOKEN_BYTES
        for index, answer in enumerate(call.answers):
            whole = prompt + _packed(answer.tokens)
            nodes.append(_Node((number, index), answer, length, whole, parent))
        if parent is not None and call.answers:
            parent.has_children = True
    versions = [
        [(drawn.epoch, drawn.step) for drawn in node.answer.versions if drawn.tokens]
        for node in nodes
        if node.answer.tokens
    ]
    oldest = min(min(each) for each in versions) if versions and all(versions) else None
    return Assembled(
        sequences=[_sequence(node) for node in nodes if not node.has_children],
        gaps=gaps,
        repairs=repairs,
        oldest=oldest,
    )


def _longest_in(nodes: list[_Node], prompt: bytes) -> _Node | None:
    within = (node for node in nodes if prompt.startswith(node.whole))
    return max(within, key=lambda node: len(node.whole), default=None)


def _sequence(leaf: _Node) -> CapturedRow:
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
    return CapturedRow(
        tokens=tokens.tolist(),
        masks=masks.tolist(),
        logprobs=logprobs.tolist(),
        answers=[node.place for node in reversed(path)],
    )


def _packed(tokens: Sequence[int]) -> bytes:
    return np.asarray(tokens, dtype=np.int64).tobytes()
