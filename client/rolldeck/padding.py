"""Pad the sequences of a batch to arrays for a training step.

B is the number of sequences of all groups, T the width of the arrays. All data is copied once,
whole rows at a time; the arrays are writable and suitable for ``torch.from_numpy``.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rolldeck.groups import IGNORED, GroupArrays
from rolldeck.ragged import Rows
from rolldeck.wire import InvalidMessage

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
) -> dict[str, NDArray[Any]]:
    """Return a batch as arrays, rows in the order of the groups; see :meth:`Batch.padded`.

    Raises:
        InvalidMessage: If a sequence is longer than `length`, or rows of one sequence differ in
            length, which only a lenient run accepts.
    """
    groups = [group.without_empty_rows() for group in groups]
    lengths = np.concatenate([group.rows["tokens"].lengths for group in groups])
    width = _width(lengths, length=length, multiple_of=multiple_of)
    sequences = np.array([group.sequences for group in groups])
    group_index = np.repeat(np.arange(len(groups), dtype=np.int32), sequences)
    inside = np.arange(width) < lengths[:, None]
    arrays = {
        "tokens": _spread(_parts(groups, "tokens"), inside, pad_token_id, np.int32),
        "masks": _spread(_parts(groups, "masks"), inside, IGNORED, np.int32),
        "attention_mask": inside,
        "scores": _scores(groups),
        "lengths": lengths.astype(np.int32),
        "group_index": group_index,
        "env_ids": np.array(
            [-1 if group.env_id is None else group.env_id for group in groups], dtype=np.int32
        )[group_index],
    }
    for name in LOGPROBS:
        has = np.array([name in group.rows for group in groups])[group_index]
        if has.any():
            shown = inside if has.all() else inside & has[:, None]
            arrays[name] = _spread(_parts(groups, name), shown, pad_logprob, np.float32)
            arrays[f"has_{name}"] = has
    return arrays | _advantages(groups, inside, group_index)


def _width(lengths: NDArray[np.int64], *, length: int | None, multiple_of: int) -> int:
    longest = int(lengths.max(initial=0))
    if length is None:
        return -(-longest // multiple_of) * multiple_of
    if longest > length:
        raise InvalidMessage(f"a sequence of {longest} tokens does not fit into length {length}")
    return length


def _parts(groups: Sequence[GroupArrays], name: str) -> list[NDArray[Any]]:
    """Return a field's values of each group that has it."""
    parts = []
    for index, group in enumerate(groups):
        rows = group.rows.get(name)
        if rows is None:
            continue
        if not np.array_equal(rows.lengths, group.rows["tokens"].lengths):
            raise InvalidMessage(f"groups[{index}].{name}: rows and tokens differ in length")
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
    if values.dtype != np.int64 or not len(values):
        return
    low, high = int(values.min()), int(values.max())
    if low < np.iinfo(dtype).min or high > np.iinfo(dtype).max:
        raise InvalidMessage(f"a token id of {low} or {high} does not fit into int32")


def _scores(groups: Sequence[GroupArrays]) -> NDArray[np.float32]:
    for index, group in enumerate(groups):
        if len(group.scores) != group.sequences:
            counts = f"{len(group.scores)} scores for {group.sequences} sequences"
            raise InvalidMessage(f"groups[{index}].scores: {counts}")
    return np.concatenate([group.scores for group in groups]).astype(np.float32)


def _advantages(
    groups: Sequence[GroupArrays], inside: NDArray[np.bool_], group_index: NDArray[np.int32]
) -> dict[str, NDArray[Any]]:
    """Return advantages ``[B]`` if every group has one for each sequence, otherwise ``[B, T]``."""
    has = np.array(["advantages" in group.rows for group in groups])[group_index]
    if not has.any():
        return {}
    found = {"has_advantages": has}
    given = [group for group in groups if "advantages" in group.rows]
    if all(_is_by_sequence(group) for group in given):
        flat = np.zeros(len(group_index), dtype=np.float32)
        flat[has] = np.concatenate([group.rows["advantages"].values for group in given])
        return found | {"advantages": flat}
    parts = [_by_token(index, group) for index, group in enumerate(groups)]
    return found | {"advantages": _spread(parts, inside & has[:, None], 0.0, np.float32)}


def _is_by_sequence(group: GroupArrays) -> bool:
    lengths = group.rows["advantages"].lengths
    return len(lengths) == group.sequences and bool((lengths == 1).all())


def _by_token(index: int, group: GroupArrays) -> NDArray[Any]:
    """Return a group's advantages per token; one per sequence is repeated for all its tokens."""
    if "advantages" not in group.rows:
        return np.zeros(0, dtype=np.float32)
    tokens: Rows = group.rows["tokens"]
    if _is_by_sequence(group):
        return np.repeat(group.rows["advantages"].values, tokens.lengths)
    if not np.array_equal(group.rows["advantages"].lengths, tokens.lengths):
        raise InvalidMessage(f"groups[{index}].advantages: rows and tokens differ in length")
    return group.rows["advantages"].values
