"""Refuse groups that can only poison training.

Atropos takes them in; these rules do not, unless the run is lenient, and then they are notes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

MAX_SEQUENCES: Final = 1024
MAX_TOKEN_ID: Final = 2**31 - 1
MAX_DEPTH: Final = 32
# One number for each token of each sequence.
PER_TOKEN: Final = ("masks", "ref_logprobs", "inference_logprobs")
# Real clients send these in other lengths; it is worth a note.
NOTED: Final = ("advantages", "messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A rule that a group breaks; `path` leads there from the group."""

    path: tuple[str | int, ...]
    message: str
    kind: str


def violations(fields: Mapping[str, Any]) -> list[Violation]:
    """Return the rules broken by a group, given its decoded fields."""
    tokens = fields["tokens"]
    found = []
    for name in ("masks", "scores", "ref_logprobs", "inference_logprobs"):
        rows = fields.get(name)
        if rows is not None and len(rows) != len(tokens):
            found.append(_length((name,), len(rows), len(tokens), "sequences"))
    for name in PER_TOKEN:
        found += _ragged(name, fields.get(name) or [], tokens)
    return found


def _ragged(
    name: str, rows: Sequence[Sequence[Any]], tokens: Sequence[Sequence[int]]
) -> list[Violation]:
    return [
        _length((name, index), len(row), len(sequence), "tokens")
        for index, (row, sequence) in enumerate(zip(rows, tokens, strict=False))
        if len(row) != len(sequence)
    ]


def _length(path: tuple[str | int, ...], length: int, expected: int, unit: str) -> Violation:
    return Violation(
        path=path, message=f"has {length} entries for {expected} {unit}", kind="length_mismatch"
    )


def notes(fields: Mapping[str, Any]) -> list[str]:
    """Return what is odd about a group and yet accepted."""
    tokens = fields["tokens"]
    found = []
    for name in NOTED:
        rows = fields.get(name)
        if rows is not None and len(rows) != len(tokens):
            found.append(f"{name} has another length than tokens")
    advantages = fields.get("advantages") or []
    pairs = zip(advantages, tokens, strict=False)
    if any(len(row) != len(sequence) for row, sequence in pairs):
        found.append("advantages has rows of another length than tokens")
    return found


def refusals(tokens: Sequence[Sequence[int]]) -> list[Violation]:
    """Return what not even a lenient run can queue."""
    if not tokens:
        return [Violation(path=("tokens",), message="the group is empty", kind="too_short")]
    if len(tokens) > MAX_SEQUENCES:
        message = f"{len(tokens)} sequences are more than {MAX_SEQUENCES}"
        return [Violation(path=("tokens",), message=message, kind="too_long")]
    return []


def token_violations(tokens: Sequence[Sequence[int]]) -> list[Violation]:
    """Return the first token id out of 0 … 2³¹ − 1."""
    for row, sequence in enumerate(tokens):
        for column, token in enumerate(sequence):
            if not 0 <= token <= MAX_TOKEN_ID:
                return [
                    Violation(
                        path=("tokens", row, column),
                        message=f"token id {token} is not within 0 … {MAX_TOKEN_ID}",
                        kind="token_range",
                    )
                ]
    return []


def too_deep(value: Any) -> bool:
    """Return whether decoded JSON is nested deeper than `MAX_DEPTH` levels."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True
