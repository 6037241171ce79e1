"""Truncation of sequences that are longer than the run's maximum.

`max_token_len` of the registration limits the context of the trainer. Atropos' `BaseEnv` drops
longer groups itself; other producers may send them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from buffer.ingest.schemas.groups import Group
from rolldeck.group_encoding import to_json, to_msgpack
from rolldeck.groups import DISTILLATION, IGNORED, JSON, GroupArrays, read
from rolldeck.ragged import Rows


def truncated(group: Group, *, longest: int) -> Group | None:
    """Return a group whose sequences have at most `longest` tokens.

    Every field with one value per token is cut; scores and messages stay. None if a sequence
    keeps no trained token although it had one, because trainers divide by their number.
    """
    arrays = read(group.content, group.codec)
    cut = _cut(arrays, longest)
    before, after = _trained(arrays.rows["masks"]), _trained(cut.rows["masks"])
    if (before & ~after).any():
        return None
    tokens = cut.rows["tokens"].lengths
    return msgspec.structs.replace(
        group,
        content=to_json(cut) if group.codec == JSON else to_msgpack(cut),
        tokens=int(tokens.sum()),
        longest_tokens=int(tokens.max(initial=0)),
        notes=[*group.notes, f"tokens: truncated to {longest:,}"],
    )


def _cut(arrays: GroupArrays, longest: int) -> GroupArrays:
    within = arrays.rows["tokens"].is_within(longest)
    return replace(
        arrays,
        rows={name: rows.head(longest) for name, rows in arrays.rows.items()},
        distillation={name: values[within] for name, values in arrays.distillation.items()},
        json={
            name: _cut_lists(text, longest) if name in DISTILLATION else text
            for name, text in arrays.json.items()
        },
    )


def _cut_lists(text: bytes, longest: int) -> bytes:
    """Return the JSON of lists per sequence, each cut; other values stay."""
    value: Any = msgspec.json.decode(text)
    if not isinstance(value, Sequence):
        return text
    return msgspec.json.encode([row[:longest] if isinstance(row, list) else row for row in value])


def _trained(masks: Rows) -> Any:
    """Return whether each sequence has a trained token, ``[S]`` bool."""
    row = np.repeat(np.arange(len(masks.lengths)), masks.lengths)
    trained = np.bincount(row[masks.values != IGNORED], minlength=len(masks.lengths))
    return trained > 0
