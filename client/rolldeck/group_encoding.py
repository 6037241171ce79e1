"""Encode trajectory groups in msgpack or in Atropos' JSON."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from rolldeck import wire
from rolldeck.errors import InvalidMessageError
from rolldeck.groups import (
    ATROPOS_FIELDS,
    DISTILLATION,
    IGNORED,
    ROWS,
    VERSION,
    GroupArrays,
    InvalidGroupError,
)
from rolldeck.ragged import Rows

INTEGER_ROWS: Final = frozenset(ROWS[:2])
_INT32: Final = np.iinfo(np.int32)


def pack_group(
    group: Mapping[str, Any] | GroupArrays, *, logprob_dtype: str | None = None
) -> wire.Group:
    """Convert a scored group to its msgpack message.

    Args:
        group: The fields of Atropos' ScoredData and any others: rows as lists, as a list of
            arrays, or as one array ``[S, T]``; `advantages` may also be one number for each
            sequence. ``epoch`` and ``policy_step`` name the version that sampled it. Or the
            arrays of a group that was read.
        logprob_dtype: ``float16`` or ``float32`` to send smaller log probabilities; by default
            arrays keep their dtype, and lists become float64.

    Raises:
        InvalidGroupError: If a required field is missing or a value is not a number.
    """
    arrays = group if isinstance(group, GroupArrays) else _arrays_of(group)
    if logprob_dtype is not None:
        narrow = {
            name: Rows(rows.values.astype(logprob_dtype), rows.lengths)
            for name, rows in arrays.rows.items()
            if name in ("ref_logprobs", "inference_logprobs")
        }
        arrays = replace(arrays, rows={**arrays.rows, **narrow})
    return to_message(arrays)


def _arrays_of(group: Mapping[str, Any]) -> GroupArrays:
    given = {name: value for name, value in group.items() if value is not None}
    missing = [name for name in ("tokens", "masks", "scores") if name not in given]
    if missing:
        raise InvalidGroupError(missing[0], "Field required")
    rows = {name: _rows(name, given.pop(name)) for name in ROWS if name in given}
    distillation = {}
    for name in DISTILLATION:
        if isinstance(given.get(name), np.ndarray):
            deep = given.pop(name)
            distillation[name] = deep.reshape(-1, deep.shape[-1])
    scores = np.asarray(given.pop("scores"), dtype=None)
    numbers = {
        name: operator.index(given.pop(name)) for name in ("env_id", *VERSION) if name in given
    }
    others = {}
    for name, value in given.items():
        try:
            others[name] = msgspec.json.encode(value, enc_hook=_plain)
        except (TypeError, ValueError) as error:
            raise InvalidGroupError(name, str(error)) from error
    return GroupArrays(rows=rows, scores=scores, distillation=distillation, json=others, **numbers)


def _rows(name: str, value: Any) -> Rows:
    if name == "advantages" and len(value) and np.ndim(value[0]) == 0:
        value = np.asarray(value)[:, None]
    try:
        if isinstance(value, np.ndarray) and value.ndim == 2:
            lengths = np.full(len(value), value.shape[1], dtype=np.int64)
            return Rows(_numbers(name, value.reshape(-1)), lengths)
        rows = [_numbers(name, row) for row in value]
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        return Rows(np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64), lengths)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidGroupError(name, f"has a value that is not a number: {error}") from error


def _numbers(name: str, row: Any) -> NDArray[Any]:
    if isinstance(row, np.ndarray) and row.dtype.name in wire.DTYPES:
        return row
    return np.asarray(row, dtype=np.int64 if name in INTEGER_ROWS else np.float64)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be encoded as JSON")


def to_msgpack(arrays: GroupArrays) -> bytes:
    """Return a group as an encoded :class:`rolldeck.wire.Group`.

    Raises:
        InvalidGroupError: If a field has an unsupported dtype.
    """
    return wire.encode(to_message(arrays))


def to_message(arrays: GroupArrays) -> wire.Group:
    """Convert a group to a :class:`rolldeck.wire.Group`, with the smallest lossless dtypes.

    Raises:
        InvalidGroupError: If a field has an unsupported dtype.
    """
    tokens, masks = arrays.rows["tokens"], arrays.rows["masks"]
    flags = _narrow(masks.values)
    if np.array_equal(masks.lengths, tokens.lengths):
        # Flags are enough if each mask is its token or -100.
        is_token = masks.values == tokens.values
        if np.array_equal(np.where(is_token, tokens.values, IGNORED), masks.values):
            flags = is_token
    packed: dict[str, Any] = {
        "lengths": wire.pack_array(tokens.lengths.astype(np.int32)),
        "tokens": _packed("tokens", _narrow(tokens.values)),
        "masks": _packed("masks", flags),
        "scores": _packed("scores", _floats(arrays.scores)),
    }
    for name in ROWS[2:]:
        if name in arrays.rows:
            packed[name] = _packed(name, _floats(arrays.rows[name].values))
    for name, values in arrays.distillation.items():
        packed[name] = _packed(name, _narrow(values) if name == DISTILLATION[0] else values)
    own_lengths = {}
    for name, rows in arrays.rows.items():
        # A reader derives lengths that equal those of the tokens, and one advantage per sequence.
        is_single = name == "advantages" and len(rows.values) == len(tokens.lengths)
        derived = np.ones_like(tokens.lengths) if is_single else tokens.lengths
        if not np.array_equal(rows.lengths, derived):
            own_lengths[name] = wire.pack_array(rows.lengths.astype(np.int32))
    return wire.Group(
        env_id=arrays.env_id,
        epoch=arrays.epoch,
        policy_step=arrays.policy_step,
        own_lengths=own_lengths,
        json=dict(arrays.json),
        **packed,
    )


def _packed(name: str, values: NDArray[Any]) -> wire.Array:
    try:
        return wire.pack_array(values)
    except InvalidMessageError as error:
        raise InvalidGroupError(name, str(error)) from error


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Convert integers to int32 if all values fit."""
    if values.dtype.kind not in "iu" or values.dtype == np.int32:
        return values
    fits = not values.size or (values.min() >= _INT32.min and values.max() <= _INT32.max)
    return values.astype(np.int32 if fits else np.int64, copy=False)


def _floats(values: NDArray[Any]) -> NDArray[Any]:
    return values if values.dtype.kind == "f" else values.astype(np.float64)


def to_json(arrays: GroupArrays) -> bytes:
    """Encode a group in Atropos' JSON with every field of ScoredData; absent ones are null."""
    shown: dict[str, Any] = dict.fromkeys(ATROPOS_FIELDS)
    shown |= {name: _lists(rows) for name, rows in arrays.rows.items()}
    shown |= {"scores": arrays.scores.tolist(), "env_id": arrays.env_id}
    tokens = arrays.rows["tokens"]
    for name, values in arrays.distillation.items():
        shown[name] = _lists(Rows(values, tokens.lengths))
    versions = {name: getattr(arrays, name) for name in VERSION}
    shown |= {name: value for name, value in versions.items() if value is not None}
    shown |= {name: Raw(text) for name, text in arrays.json.items()}
    return msgspec.json.encode(shown)


def _lists(rows: Rows) -> Sequence[Any]:
    flat, ends = rows.values.tolist(), np.cumsum(rows.lengths).tolist()
    return [
        flat[end - length : end] for end, length in zip(ends, rows.lengths.tolist(), strict=True)
    ]
