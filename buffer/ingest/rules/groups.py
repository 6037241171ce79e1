"""Validation rules for groups that would corrupt training.

Atropos accepts such groups. These rules refuse them; in a lenient run they only add notes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from buffer.items.rules.limits import MAX_TOKEN_ID, Limits
from rolldeck.groups import IGNORED
from rolldeck.ragged import Rows

# Fields with one number per token of each sequence.
PER_TOKEN: Final = ("masks", "ref_logprobs", "inference_logprobs")
REQUIRED: Final = ("tokens", "masks")
DISTILLATION: Final = ("distill_token_ids", "distill_logprobs")
# Open fields with one entry per sequence; `images` may also have another form.
PER_SEQUENCE: Final = ("messages", "overrides", "images")
# Existing clients send these fields in other lengths: add a note.
NOTED: Final = ("advantages", *PER_SEQUENCE, *DISTILLATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A violated rule; `path` is the path from the group."""

    path: tuple[str | int, ...]
    message: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Lengths of the fields of a group.

    `rows` holds the row lengths of each present field with one row per sequence. `counts` holds
    the number of entries of the fields with one entry per sequence, ``scores`` and open fields.
    """

    rows: Mapping[str, Sequence[int]]
    counts: Mapping[str, int]

    @classmethod
    def of(
        cls, rows: Mapping[str, Sequence[int]], *, scores: int, fields: Mapping[str, Any]
    ) -> "Lengths":
        """Return the lengths of a group, without empty optional fields.

        Atropos' `BaseEnv` sends ``[]`` for each optional field that an environment does not set.

        Args:
            rows: Lengths of the rows of each field with one row per sequence.
            scores: Number of scores.
            fields: Decoded open fields, and distillation if it is in lists.
        """
        teacher = {name: [len(row) for row in fields.get(name) or ()] for name in DISTILLATION}
        present = {
            name: lengths
            for name, lengths in {**rows, **teacher}.items()
            if name in REQUIRED or any(lengths) or lengths == rows["tokens"]
        }
        values = {name: fields.get(name) for name in PER_SEQUENCE}
        counts = {
            name: len(value) for name, value in values.items() if isinstance(value, list) and value
        }
        return cls(rows=present, counts={"scores": scores, **counts})

    def entries(self, name: str) -> int | None:
        """Return the number of entries of a field; None if it is absent."""
        return len(self.rows[name]) if name in self.rows else self.counts.get(name)


def violations(lengths: Lengths) -> list[Violation]:
    """Return the rules that the lengths of a group violate."""
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
    """Return notes on accepted anomalies in the lengths of a group."""
    tokens = lengths.rows["tokens"]
    found = []
    for name in NOTED:
        entries = lengths.entries(name)
        if entries is not None and entries != len(tokens):
            found.append(f"{name} has {entries} entries for {len(tokens)} sequences")
        rows = lengths.rows.get(name, ())
        by_sequence = name == "advantages" and rows == [1] * len(tokens)
        if _ragged(name, rows, tokens) and not by_sequence:
            found.append(f"{name} has rows whose lengths differ from those of tokens")
    return found


def mask_notes(tokens: Rows, masks: Rows) -> list[str]:
    """Return notes on the masks of a group, which trainers use as labels of the tokens."""
    if not np.array_equal(tokens.lengths, masks.lengths):
        return []
    found = []
    if ((masks.values != IGNORED) & (masks.values != tokens.values)).any():
        found.append(f"masks has numbers that are neither {IGNORED} nor the token")
    written = tokens.lengths[tokens.lengths > 0]
    starts = np.cumsum(written) - written
    if len(starts) and not np.logical_or.reduceat(masks.values >= 0, starts).all():
        found.append("masks has rows without a trained token")
    return found


def refusals(tokens: Sequence[int], *, limits: Limits) -> list[Violation]:
    """Return the size violations of a group; lenient runs refuse them too.

    Args:
        tokens: Length of each sequence.
        limits: The limits.
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
    message = f"{length} {unit}, at most {getattr(limits, name)} allowed (max_{name})"
    return Violation(path=path, message=message, kind="too_long")


def token_violations(tokens: Rows) -> list[Violation]:
    """Return the first token id outside 0 … 2³¹ − 1."""
    return _out_of_range("tokens", tokens, 0, MAX_TOKEN_ID)


def mask_violations(masks: Rows) -> list[Violation]:
    """Return the first number that does not fit a 64-bit integer."""
    return _out_of_range("masks", masks, -(2**63), 2**63 - 1)


def _out_of_range(name: str, rows: Rows, least: int, most: int) -> list[Violation]:
    values = rows.values
    if not len(values) or (values.min() >= least and values.max() <= most):
        return []
    index = int(np.argmax((values < least) | (values > most)))
    what = "token id " if name == "tokens" else ""
    return [
        Violation(
            path=(name, *rows.position_of(index)),
            message=f"{what}{values[index]} is not within {least} … {most}",
            kind="token_range" if name == "tokens" else "range",
        )
    ]
