"""Refuse groups that can only poison training.

Atropos takes them in; these rules do not, unless the run is lenient, and then they are notes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from buffer.items.rules.limits import MAX_TOKEN_ID, Limits
from rolldeck.ragged import Rows

# One number for each token of each sequence.
PER_TOKEN: Final = ("masks", "ref_logprobs", "inference_logprobs")
REQUIRED: Final = ("tokens", "masks")
# Real clients send these in other lengths; it is worth a note.
NOTED: Final = ("advantages", "messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A rule that a group breaks; `path` leads there from the group."""

    path: tuple[str | int, ...]
    message: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How long everything in a group is.

    `rows` gives, for each field that has one row a sequence, the length of each row; a field that
    is absent is not in it. `counts` gives the entries of the fields that have one entry for each
    sequence, ``scores`` and ``messages``.
    """

    rows: Mapping[str, Sequence[int]]
    counts: Mapping[str, int]

    @classmethod
    def of(cls, rows: Mapping[str, Sequence[int]], *, scores: int, messages: Any) -> "Lengths":
        """Return the lengths of a group, without the optional fields that hold nothing.

        Atropos' `BaseEnv` sends ``[]`` for each optional field that an environment does not set.
        """
        present = {
            name: lengths
            for name, lengths in rows.items()
            if name in REQUIRED or any(lengths) or lengths == rows["tokens"]
        }
        counts = {"scores": scores} | ({"messages": len(messages)} if messages else {})
        return cls(rows=present, counts=counts)

    def entries(self, name: str) -> int | None:
        """Return how many entries a field has, None when it is absent."""
        return len(self.rows[name]) if name in self.rows else self.counts.get(name)


def violations(lengths: Lengths) -> list[Violation]:
    """Return the rules that the lengths of a group break."""
    sequences = len(lengths.rows["tokens"])
    found = []
    if not sequences:
        found.append(Violation(path=("tokens",), message="the group is empty", kind="too_short"))
    for name in ("masks", "scores", "ref_logprobs", "inference_logprobs"):
        entries = lengths.entries(name)
        if entries is not None and entries != sequences:
            found.append(_length((name,), entries, sequences, "sequences"))
    for name in PER_TOKEN:
        found += _ragged(name, lengths.rows.get(name, ()), lengths.rows["tokens"])
    return found


def _ragged(name: str, rows: Sequence[int], tokens: Sequence[int]) -> list[Violation]:
    if rows == tokens:
        return []
    return [
        _length((name, index), row, sequence, "tokens")
        for index, (row, sequence) in enumerate(zip(rows, tokens, strict=False))
        if row != sequence
    ]


def _length(path: tuple[str | int, ...], length: int, expected: int, unit: str) -> Violation:
    return Violation(
        path=path, message=f"has {length} entries for {expected} {unit}", kind="length_mismatch"
    )


def notes(lengths: Lengths) -> list[str]:
    """Return what is odd about a group and yet accepted."""
    tokens = lengths.rows["tokens"]
    found = []
    for name in NOTED:
        entries = lengths.entries(name)
        if entries is not None and entries != len(tokens):
            found.append(f"{name} has another length than tokens")
    if _ragged("advantages", lengths.rows.get("advantages", ()), tokens):
        found.append("advantages has rows of another length than tokens")
    return found


def refusals(tokens: Sequence[int], *, limits: Limits) -> list[Violation]:
    """Return why a group is too large, which not even a lenient run can queue.

    Args:
        tokens: Length of each sequence.
        limits: The bounds.
    """
    if len(tokens) > limits.sequences_per_group:
        return [_too_long(("tokens",), len(tokens), "sequences_per_group", limits)]
    if sum(tokens) > limits.tokens_per_group:
        return [_too_long(("tokens",), sum(tokens), "tokens_per_group", limits)]
    return [
        _too_long(("tokens", row), length, "tokens_per_sequence", limits)
        for row, length in enumerate(tokens)
        if length > limits.tokens_per_sequence
    ]


def _too_long(path: tuple[str | int, ...], length: int, name: str, limits: Limits) -> Violation:
    unit = name.partition("_")[0]
    message = f"{length} {unit} are more than {getattr(limits, name)} (max_{name})"
    return Violation(path=path, message=message, kind="too_long")


def token_violations(tokens: Rows) -> list[Violation]:
    """Return the first token id out of 0 … 2³¹ − 1."""
    return _out_of_range("tokens", tokens, 0, MAX_TOKEN_ID)


def mask_violations(masks: Rows) -> list[Violation]:
    """Return the first number that no array of integers holds."""
    return _out_of_range("masks", masks, -(2**63), 2**63 - 1)


def _out_of_range(name: str, rows: Rows, least: int, most: int) -> list[Violation]:
    values = rows.values
    if not len(values) or (values.min() >= least and values.max() <= most):
        return []
    index = int(np.argmax((values < least) | (values > most)))
    what = "token id " if name == "tokens" else ""
    return [
        Violation(
            path=(name, *rows.place_of(index)),
            message=f"{what}{values[index]} is not within {least} … {most}",
            kind="token_range" if name == "tokens" else "range",
        )
    ]
