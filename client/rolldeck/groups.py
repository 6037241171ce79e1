"""Trajectory groups as arrays.

Environments of Atropos state settings of single sequences in `overrides` (one object for each
sequence), `generation_params` and `group_overrides` (one object for the group). They are read as by
Atropos' example trainer, `pad_data_to_good_offset` in its ``data.py``.

Values survive in both directions. A number from JSON becomes a float64, which is the same number;
a float32 is written to JSON as the equal double, so it reads back unchanged in either width.
Lists keep their order, unknown fields are kept, and an absent field is null in JSON.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from rolldeck import wire
from rolldeck.errors import InvalidMessageError
from rolldeck.json_groups import Bytes, read_plain
from rolldeck.ragged import Rows
from rolldeck.structs import message_and_path

# Settings of single sequences, in the open fields of a group.

FIELDS: Final = ("overrides", "generation_params", "group_overrides")
"""The fields that are read; a temperature of an earlier one takes precedence."""


class Overrides(NamedTuple):
    """Settings of the S sequences of a group.

    Attributes:
        zero_advantage: ``[S]``: whether `set_advantage_to_zero` is set.
        temperature: ``[S]`` float32, NaN where none is stated. 0 and below count as 1.
    """

    zero_advantage: NDArray[np.bool_]
    temperature: NDArray[np.float32]


def overrides_of(fields: Mapping[str, Any], *, sequences: int) -> Overrides:
    """Return the settings of a group.

    `overrides` of another length than the group are ignored: it is unknown to which sequences they
    belong.

    Args:
        fields: The decoded values of :data:`FIELDS`, and any others.
        sequences: Number of sequences S.
    """
    own, *shared = [fields.get(name) for name in FIELDS]
    stated = [temperature for temperature in map(_temperature, shared) if temperature is not None]
    found = Overrides(
        np.zeros(sequences, dtype=np.bool_),
        np.full(sequences, stated[0] if stated else math.nan, dtype=np.float32),
    )
    if isinstance(own, Sequence) and len(own) == sequences:
        for row, settings in enumerate(own):
            if isinstance(settings, Mapping):
                found.zero_advantage[row] = bool(settings.get("set_advantage_to_zero"))
                temperature = _temperature(settings)
                if temperature is not None:
                    found.temperature[row] = temperature
    return found


def _temperature(settings: Any) -> float | None:
    """Return the temperature that an object states; None if it is absent or no number."""
    value = settings.get("temperature") if isinstance(settings, Mapping) else None
    try:
        temperature = math.nan if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(temperature):
        return None
    return temperature if temperature > 0 else 1.0


# Convert trajectory groups between their codecs, by way of arrays.

Names = tuple[str, ...]
JSON: Final = "json"
MSGPACK: Final = "msgpack"
IGNORED: Final = -100
"""Mask of an untrained token."""

INTEGERS: Final = frozenset({"uint8", "int8", "int16", "int32", "int64"})
FLOATS: Final = frozenset({"float16", "float32", "float64"})
ROWS: Final[Names] = (
    "tokens",
    "masks",
    "advantages",
    "ref_logprobs",
    "inference_logprobs",
)
DISTILLATION: Final[Names] = ("distill_token_ids", "distill_logprobs")
PER_SEQUENCE: Final = frozenset(
    {
        *("messages", "overrides", "images", *DISTILLATION),
        *("is_correct", "is_truncated", "policy_versions", "spans"),
    }
)
"""Open fields that may have one entry for each sequence."""
# The fields of Atropos' ScoredData in its order; JSON always contains all of them.
ATROPOS_FIELDS: Final[Names] = (
    *ROWS[:2],
    "scores",
    *ROWS[2:4],
    "messages",
    "generation_params",
    ROWS[4],
    "overrides",
    "group_overrides",
    "images",
    "env_id",
    *DISTILLATION,
)
VERSION: Final[Names] = ("epoch", "policy_step")
_TYPED: Final = frozenset({*ROWS, "scores", "env_id", "policy_step"})
# Separate fields if they have the usual shape, otherwise JSON like any other field.
_EITHER: Final = frozenset({"epoch", *DISTILLATION})
_NUMBERS: Final[dict[str, Any]] = {
    name: np.int64 if name in {"tokens", "masks", "distill_token_ids"} else np.float64
    for name in (*ROWS, *DISTILLATION)
}
_LIST_TYPES: Final[dict[str, Any]] = {
    "tokens": list[list[int]],
    "masks": list[list[int]],
    "advantages": list[list[float]],
    "ref_logprobs": list[list[float]],
    "inference_logprobs": list[list[float]],
    "distill_token_ids": list[list[list[int]]],
    "distill_logprobs": list[list[list[float]]],
}
_decode_group = msgspec.msgpack.Decoder(wire.Group).decode
_decode_parts = msgspec.json.Decoder(dict[str, Raw]).decode


class InvalidGroupError(InvalidMessageError):
    """A group violates its schema; `field` is the path inside it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupArrays:
    """A group of S sequences, from either codec.

    Attributes:
        rows: The fields with one row for each sequence (:data:`ROWS`), without absent ones.
        scores: ``[S]``, floats.
        distillation: ``[ΣT, K]`` by field, with the same K for every token.
        json: All other fields that are not null, as JSON.
    """

    rows: Mapping[str, Rows]
    scores: NDArray[Any]
    env_id: int | None = None
    epoch: int | None = None
    policy_step: int | None = None
    distillation: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    json: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def sequences(self) -> int:
        """Number of sequences S."""
        return len(self.rows["tokens"].lengths)

    @property
    def overrides(self) -> Overrides:
        """Settings of its sequences, from its open fields."""
        fields = {
            name: msgspec.json.decode(self.json[name]) for name in FIELDS if name in self.json
        }
        return overrides_of(fields, sequences=self.sequences)

    @property
    def has_advantage_per_sequence(self) -> bool:
        """Whether it has advantages with one number for each sequence."""
        rows = self.rows.get("advantages")
        return rows is not None and np.array_equal(rows.lengths, np.ones(self.sequences))

    def only(self, kept: NDArray[np.bool_]) -> "GroupArrays":
        """Return the group with some of its sequences; `kept` is ``[S]``."""
        tokens = np.repeat(kept, self.rows["tokens"].lengths)
        return replace(
            self,
            rows={name: rows.only(kept) for name, rows in self.rows.items()},
            scores=self.scores[kept],
            distillation={name: values[tokens] for name, values in self.distillation.items()},
            json={
                name: _only(text, kept) if name in PER_SEQUENCE else text
                for name, text in self.json.items()
            },
        )

    def without_unusable_rows(self) -> "GroupArrays":
        """Return the group without optional rows that are empty or belong to no sequence.

        Atropos' `BaseEnv` sends ``[]`` for each optional field that an environment does not set.
        Atropos accepts advantages of any length; here they need one number for each token or for
        each sequence.
        """
        tokens = self.rows["tokens"].lengths
        rows = {
            name: rows
            for name, rows in self.rows.items()
            if name in ROWS[:2]
            or np.array_equal(rows.lengths, tokens)
            or (self.has_advantage_per_sequence if name == "advantages" else len(rows.values))
        }
        return replace(self, rows=rows)


def read(content: Bytes, codec: str) -> GroupArrays:
    """Return the arrays of a stored group; views of `content` are read-only.

    Raises:
        InvalidGroupError: If the content is not a group.
    """
    return read_msgpack(content) if codec == MSGPACK else read_json(content)


def _only(text: bytes, kept: NDArray[np.bool_]) -> bytes:
    """Return the JSON of a list without the entries of other sequences; other values stay."""
    try:
        entries = msgspec.json.decode(text, type=list[Raw])
    except msgspec.MsgspecError:
        return text
    if len(entries) != len(kept):
        return text
    return msgspec.json.encode([*compress(entries, kept)])


def read_msgpack(content: Bytes, *, takes_nan: bool = False) -> GroupArrays:
    """Return the arrays of an encoded :class:`rolldeck.wire.Group`.

    With `takes_nan`, scores may be NaN.

    Raises:
        InvalidGroupError: If the content is not a group, or its arrays are inconsistent.
    """
    try:
        group = _decode_group(content)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        message, path = message_and_path(error)
        raise InvalidGroupError(path.lstrip("."), message) from error
    if group.schema != wire.SCHEMA_VERSION:
        raise InvalidGroupError("schema", f"version {group.schema} is not {wire.SCHEMA_VERSION}")
    for name in group.own_lengths:
        if name not in ROWS[1:] or getattr(group, name) is None:
            raise InvalidGroupError(f"own_lengths.{name}", "is not a row field of this group")
    for name in group.json:
        if name in _TYPED or (name in _EITHER and getattr(group, name) is not None):
            raise InvalidGroupError(f"json.{name}", "is a separate field")
    lengths = _lengths_in("lengths", group.lengths)
    tokens = _rows_in(group, "tokens", lengths, INTEGERS)
    rows = {"tokens": tokens, "masks": _masks_in(group, tokens)}
    for name in ROWS[2:]:
        if getattr(group, name) is not None:
            rows[name] = _rows_in(group, name, lengths, FLOATS)
    distillation = {}
    for name, dtypes in zip(DISTILLATION, (INTEGERS, FLOATS), strict=True):
        array = getattr(group, name)
        if array is not None:
            values = distillation[name] = _array_in(name, array, dtypes, dimensions=2)
            if len(values) != len(tokens.values):
                message = f"has {len(values)} entries for {len(tokens.values)} tokens"
                raise InvalidGroupError(name, message)
    return GroupArrays(
        rows=rows,
        scores=_array_in("scores", group.scores, FLOATS, dimensions=1, takes_nan=takes_nan),
        env_id=group.env_id,
        epoch=group.epoch,
        policy_step=group.policy_step,
        distillation=distillation,
        json=group.json,
    )


def _array_in(
    name: str,
    array: wire.Array,
    dtypes: frozenset[str],
    *,
    dimensions: int,
    takes_nan: bool = False,
) -> NDArray[Any]:
    try:
        values = wire.unpack_array(array)
    except InvalidMessageError as error:
        raise InvalidGroupError(name, str(error)) from error
    if values.dtype.name not in dtypes or values.ndim != dimensions:
        expected = f"{dimensions} dimension(s) of {', '.join(sorted(dtypes))}"
        raise InvalidGroupError(
            name, f"is {values.dtype.name} {list(values.shape)}, not {expected}"
        )
    known = values[~np.isnan(values)] if takes_nan and values.dtype.kind == "f" else values
    if values.dtype.kind == "f" and not np.isfinite(known).all():
        raise InvalidGroupError(name, "Input should be a finite number")
    return values


def _lengths_in(name: str, array: wire.Array) -> NDArray[np.int64]:
    lengths = _array_in(name, array, frozenset({"int32"}), dimensions=1).astype(np.int64)
    if len(lengths) and lengths.min() < 0:
        raise InvalidGroupError(name, "a length is below zero")
    return lengths


def _rows_in(
    group: wire.Group, name: str, lengths: NDArray[np.int64], dtypes: frozenset[str]
) -> Rows:
    values = _array_in(name, getattr(group, name), dtypes, dimensions=1)
    if name in group.own_lengths:
        lengths = _lengths_in(f"own_lengths.{name}", group.own_lengths[name])
    elif name == "advantages" and len(values) == len(lengths):
        lengths = np.ones(len(lengths), dtype=np.int64)
    total = int(lengths.sum())
    if len(values) != total:
        raise InvalidGroupError(name, f"has {len(values)} entries for {total} tokens")
    return Rows(values, lengths)


def _masks_in(group: wire.Group, tokens: Rows) -> Rows:
    if group.masks.dtype != "bool":
        return _rows_in(group, "masks", tokens.lengths, INTEGERS)
    flags = _array_in("masks", group.masks, frozenset({"bool"}), dimensions=1)
    if len(flags) != len(tokens.values) or "masks" in group.own_lengths:
        raise InvalidGroupError("masks", f"has {len(flags)} flags for {len(tokens.values)} tokens")
    if len(flags) and flags.view(np.uint8).max() > 1:
        raise InvalidGroupError("masks", "a flag is neither 0 nor 1")
    return Rows(np.where(flags, tokens.values, IGNORED), tokens.lengths)


def read_json(content: Bytes) -> GroupArrays:
    """Return the arrays of a group in Atropos' JSON.

    Raises:
        InvalidGroupError: If the content is not a group.
    """
    plain = read_plain(content)
    try:
        parts = _decode_parts(content) if plain is None or plain.others else {}
        if plain is None:
            return _from_lists(parts)
    except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError) as error:
        raise InvalidGroupError("", str(error)) from error
    others = {name: bytes(parts[name]) for name in plain.others}
    return GroupArrays(
        rows=plain.rows,
        scores=plain.scores,
        env_id=plain.env_id,
        json=others,
        epoch=_whole(others, "epoch"),
        policy_step=_whole(others, "policy_step"),
    )


def _whole(others: dict[str, bytes], name: str) -> int | None:
    """Remove a field from `others` and return it, if it is an integer below 2³¹."""
    text = others.get(name, b"")
    if len(text) > 10 or not text.isdigit() or int(text) >= 1 << 31:
        return None
    return int(others.pop(name))


def _from_lists(parts: dict[str, Raw]) -> GroupArrays:
    """Read any accepted group by way of Python lists."""
    others = {name: bytes(raw) for name, raw in parts.items() if bytes(raw) != b"null"}
    rows = {
        name: Rows.of(msgspec.json.decode(others.pop(name), type=_LIST_TYPES[name]), _NUMBERS[name])
        for name in ROWS
        if name in others
    }
    distillation = {}
    for name in DISTILLATION:
        if name in others:
            nested = msgspec.json.decode(others[name], type=_LIST_TYPES[name])
            cells = [cell for row in nested for cell in row]
            widths = {len(cell) for cell in cells}
            # Not an array if K varies, or the rows do not match the tokens.
            lengths = [len(row) for row in nested]
            if len(widths) <= 1 and lengths == rows["tokens"].lengths.tolist():
                flat = np.array(cells, dtype=_NUMBERS[name])
                distillation[name] = flat.reshape(len(cells), *(widths or {0}))
                del others[name]
    scores = msgspec.json.decode(others.pop("scores"), type=list[float])
    return GroupArrays(
        rows=rows,
        scores=np.array(scores, dtype=np.float64),
        env_id=msgspec.json.decode(others.pop("env_id", b"null"), type=int | None),
        distillation=distillation,
        json=others,
        epoch=_whole(others, "epoch"),
        policy_step=_whole(others, "policy_step"),
    )
