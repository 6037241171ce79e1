"""Pad the sequences of a batch to arrays for a training step.

B is the number of sequences of all groups, T the width of the arrays. All data is copied once,
whole rows at a time; the arrays are writable and suitable for ``torch.from_numpy``.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from rolldeck.errors import InvalidMessageError
from rolldeck.groups import DISTILLATION, IGNORED, GroupArrays
from rolldeck.ragged import Rows

PAD_LOGPROB: Final = 1.0
"""A positive value, which no log probability has. Atropos' environments mark prompt tokens with it,
and its example trainer pads with it."""
LOGPROBS: Final = ("ref_logprobs", "inference_logprobs")


def padded(
    groups: Sequence[GroupArrays],
    *,
    pad_token_id: int = 0,
    length: int | None = None,
    multiple_of: int = 1,
    pad_logprob: float = PAD_LOGPROB,
    temperature: float = 1.0,
) -> dict[str, NDArray[Any]]:
    """Return a batch as arrays, rows in the order of the groups; see :meth:`Batch.padded`.

    Raises:
        InvalidMessageError: If a sequence is longer than `length`, or rows of one sequence differ
            in length, which only a lenient run accepts.
    """
    groups = [group.without_unusable_rows() for group in groups]
    lengths = np.concatenate([group.rows["tokens"].lengths for group in groups])
    longest = int(lengths.max(initial=0))
    if length is not None and longest > length:
        raise InvalidMessageError(
            f"a sequence of {longest} tokens does not fit into length {length}"
        )
    width = -(-longest // multiple_of) * multiple_of if length is None else length
    for index, group in enumerate(groups):
        if len(group.scores) != group.sequences:
            counts = f"{len(group.scores)} scores for {group.sequences} sequences"
            raise InvalidMessageError(f"groups[{index}].scores: {counts}")
    sequences = np.array([group.sequences for group in groups])
    group_index = np.repeat(np.arange(len(groups), dtype=np.int32), sequences)
    inside = np.arange(width) < lengths[:, None]
    arrays = {
        "tokens": _spread(_parts(groups, "tokens"), inside, pad_token_id, np.int32),
        "masks": _spread(_parts(groups, "masks"), inside, IGNORED, np.int32),
        "attention_mask": inside,
        "scores": np.concatenate([group.scores for group in groups]).astype(np.float32),
        "lengths": lengths.astype(np.int32),
        "group_index": group_index,
        "env_ids": np.array(
            [-1 if group.env_id is None else group.env_id for group in groups], dtype=np.int32
        )[group_index],
    }
    overrides = [group.overrides for group in groups]
    stated = np.concatenate([own.temperature for own in overrides])
    arrays["zero_advantage"] = np.concatenate([own.zero_advantage for own in overrides])
    arrays["temperature"] = np.where(np.isnan(stated), np.float32(temperature), stated)
    for name in LOGPROBS:
        has = np.array([name in group.rows for group in groups])[group_index]
        if has.any():
            shown = inside if has.all() else inside & has[:, None]
            arrays[name] = _spread(_parts(groups, name), shown, pad_logprob, np.float32)
            arrays[f"has_{name}"] = has
    arrays |= _distillation(groups, inside, group_index, pad_logprob)
    arrays |= _advantages(groups, inside, group_index)
    if "advantages" in arrays:
        arrays["advantages"][arrays["zero_advantage"]] = 0.0
    return arrays


def _parts(groups: Sequence[GroupArrays], name: str) -> list[NDArray[Any]]:
    """Return a field's values of each group that has it."""
    parts = []
    for index, group in enumerate(groups):
        rows = group.rows.get(name)
        if rows is None:
            continue
        if not np.array_equal(rows.lengths, group.rows["tokens"].lengths):
            raise InvalidMessageError(f"groups[{index}].{name}: rows and tokens differ in length")
        parts.append(rows.values)
    return parts


def _spread(
    parts: Sequence[NDArray[Any]], inside: NDArray[np.bool_], fill: float, dtype: Any
) -> NDArray[Any]:
    """Return the values row by row where `inside` is true, `fill` elsewhere: ``[B, T]``."""
    for values in parts:
        _check_range(values, dtype)
    if sum(map(len, parts)) == inside.size:  # no padding: copy directly
        out = np.empty(inside.shape, dtype=dtype)
        np.concatenate(parts, out=out.reshape(-1), casting="same_kind")
        return out
    out = np.full(inside.shape, fill, dtype=dtype)
    out[inside] = np.concatenate(parts)
    return out


def _check_range(values: NDArray[Any], dtype: Any) -> None:
    if values.dtype != np.int64 or not values.size:
        return
    low, high = int(values.min()), int(values.max())
    if low < np.iinfo(dtype).min or high > np.iinfo(dtype).max:
        raise InvalidMessageError(f"a token id of {low} or {high} does not fit into int32")


def _advantages(
    groups: Sequence[GroupArrays], inside: NDArray[np.bool_], group_index: NDArray[np.int32]
) -> dict[str, NDArray[Any]]:
    """Return advantages ``[B]`` if every group has one for each sequence, otherwise ``[B, T]``."""
    has = np.array(["advantages" in group.rows for group in groups])[group_index]
    if not has.any():
        return {}
    found = {"has_advantages": has}
    given = [group for group in groups if "advantages" in group.rows]
    if all(group.has_advantage_per_sequence for group in given):
        flat = np.zeros(len(group_index), dtype=np.float32)
        flat[has] = np.concatenate([group.rows["advantages"].values for group in given])
        return found | {"advantages": flat}
    # Per token; one per sequence is repeated for all its tokens.
    parts = [
        np.repeat(group.rows["advantages"].values, group.rows["tokens"].lengths)
        if group.has_advantage_per_sequence
        else group.rows["advantages"].values
        for group in given
    ]
    return found | {"advantages": _spread(parts, inside & has[:, None], 0.0, np.float32)}


def _distillation(
    groups: Sequence[GroupArrays],
    inside: NDArray[np.bool_],
    group_index: NDArray[np.int32],
    pad_logprob: float,
) -> dict[str, NDArray[Any]]:
    """Return the tokens of a teacher and their log probabilities, ``[B, T, K]``."""
    found: dict[str, NDArray[Any]] = {}
    kinds = zip(DISTILLATION, (IGNORED, pad_logprob), (np.int32, np.float32), strict=True)
    for name, fill, dtype in kinds:
        given: list[NDArray[Any]] = []
        has_values: list[bool] = []
        for group in groups:
            values = group.distillation.get(name)
            if values is None:
                # A distillation of varying K is JSON; it counts if every token has a row.
                rows = msgspec.json.decode(group.json.get(name, b"null")) or []
                if [len(row) for row in rows] == group.rows["tokens"].lengths.tolist():
                    cells = Rows.of([cell for row in rows for cell in row], np.asarray(fill).dtype)
                    within = np.arange(cells.lengths.max(initial=0)) < cells.lengths[:, None]
                    values = _spread([cells.values], within, fill, dtype)
            has_values.append(values is not None and values.size > 0)
            if values is not None and values.size:
                _check_range(values, dtype)
                given.append(values)
        if not given:
            continue
        has = np.array(has_values)[group_index]
        width = max(values.shape[1] for values in given)
        spread = np.full((*inside.shape, width), fill, dtype=dtype)
        spread[inside & has[:, None]] = np.concatenate(
            [
                np.pad(values, ((0, 0), (0, width - values.shape[1])), constant_values=fill)
                for values in given
            ]
        )
        found |= {name: spread, f"has_{name}": has}
    return found
