"""Decode pushes in MessagePack.

The rules of the JSON form of groups are applied to whole arrays: one group of 8 × 2,048 tokens,
masks and float32 logprobs takes 0.1 ms of CPU.
"""

from collections import Counter
from typing import Any, Final, Unpack

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from buffer.ingest.rules import fragments as fragment_rules
from buffer.ingest.rules import groups as group_rules
from buffer.ingest.rules import text_limits
from buffer.ingest.rules.groups import Lengths
from buffer.ingest.schemas.bodies import (
    InvalidBody,
    InvalidPush,
    decode_envelope,
    invalid_push,
)
from buffer.ingest.schemas.groups import (
    DecodingOptions,
    Group,
    Rules,
    checked_group,
    unscored_group,
)
from buffer.ingest.schemas.groups_json import decode_groups, message_problems, open_value
from buffer.items.rules.limits import Limits
from buffer.items.rules.spans import span_problem
from rolldeck import batches
from rolldeck.group_encoding import to_msgpack
from rolldeck.groups import MSGPACK, GroupArrays, InvalidGroupError, read_msgpack
from rolldeck.wire import GROUPS_TYPE, Fragment, GroupPush, pack_array

# The first byte of JSON is a number in MessagePack, so msgspec's own message would be misleading.
WRONG_FORMAT: Final = (
    f"the body must be a MessagePack map of {GROUPS_TYPE}; "
    "send groups as JSON to POST /atropos/<run>/scored_data"
)
_decode_push = msgspec.msgpack.Decoder(GroupPush).decode
_decode_parts = msgspec.msgpack.Decoder(dict[str, Raw]).decode


def decode_json_push(body: bytes, **options: Unpack[DecodingOptions]) -> list[Group]:
    """Return the groups of a JSON list, all or none.

    Raises:
        InvalidPush: If the list is empty, or if a group is malformed, over a limit, or violates
            a rule and is not `lenient`.
    """
    try:
        groups = decode_groups(body, **options)
    except InvalidBody as error:
        first = error.problems[0]
        place = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in first.loc[1:])
        raise InvalidPush(f"groups{place}" if place else "body", first.msg) from error
    if not groups:
        raise InvalidPush("body", "must contain at least one group")
    return groups


def decode_push(body: bytes, **options: Unpack[DecodingOptions]) -> list[Group]:
    """Return the groups of a :class:`rolldeck.wire.GroupPush`, all or none.

    Groups without advantages get them by the rule `advantages`, unless it is empty.

    Raises:
        InvalidPush: At the first value that does not match :mod:`rolldeck.wire`, is over a
            limit, or violates a rule and is not `lenient`.
    """
    rules = Rules(**options)
    push = decode_envelope(_decode_push, body, wrong_format=WRONG_FORMAT)
    if len(push.groups) > rules.limits.groups_per_push:
        most = text_limits.too_many(rules.limits.groups_per_push, "groups", "groups_per_push")
        raise InvalidPush("groups", most.message)
    groups = [
        _group(content, ("groups", index), rules) for index, content in enumerate(push.groups)
    ]
    if not push.problems and not push.lesson:
        return groups
    if len(push.problems) != len(groups):
        raise InvalidPush("problems", f"has {len(push.problems)} entries for {len(groups)} groups")
    if not push.lesson:
        raise InvalidPush("lesson", "is required with problems")
    if "\x00" in push.lesson:
        raise InvalidPush("lesson", "must not contain the NUL character")
    if len(set(push.problems)) < len(push.problems):
        repeated = Counter(push.problems).most_common(1)[0][0]
        raise InvalidPush("problems", f"lists {repeated} more than once")
    return [
        msgspec.structs.replace(group, problem=(push.lesson, number))
        for group, number in zip(groups, push.problems, strict=True)
    ]


def _group(content: bytes, place: tuple[str | int, ...], rules: Rules) -> Group:
    try:
        arrays = read_msgpack(content, takes_nan=rules.takes_unscored)
    except InvalidGroupError as error:
        field = f"{_path(place)}.{error.field}" if error.field else _path(place)
        raise InvalidPush(field, error.message) from error
    scored = ~np.isnan(arrays.scores)
    unscored = int(len(scored) - scored.sum())
    if unscored:
        if len(scored) != arrays.sequences:
            problem = f"has {len(scored)} entries for {arrays.sequences} sequences"
            raise InvalidPush(_path((*place, "scores")), problem)
        if not scored.any():
            return unscored_group(env_id=arrays.env_id, sequences=unscored)
        arrays = arrays.only(scored)
        content = to_msgpack(arrays)
    fields = _open_fields(arrays, place, rules.limits)
    rows = {name: rows.lengths.tolist() for name, rows in arrays.rows.items()}
    lengths = Lengths.of(rows, scores=len(arrays.scores), fields=fields)
    values = sum(array.size for array in arrays.distillation.values())
    values += sum(len(rows.values) for rows in arrays.rows.values())
    refused = group_rules.refusals(lengths.rows["tokens"], limits=rules.limits)
    if values > rules.limits.values_per_group:
        most = rules.limits.values_per_group
        refused = [text_limits.too_many(most, "values", "values_per_group")]
    broken = group_rules.violations(lengths) + group_rules.token_violations(arrays.rows["tokens"])
    for violation in refused + ([] if rules.lenient else broken):
        raise InvalidPush(_path((*place, *violation.path)), violation.message)
    added = rules.advantages_of(lengths, arrays.scores, fields)
    return checked_group(
        content if added is None else _with_advantages(content, added),
        codec=MSGPACK,
        env_id=arrays.env_id,
        lengths=lengths,
        tokens=arrays.rows["tokens"],
        masks=arrays.rows["masks"],
        scores=arrays.scores,
        broken=broken,
        version=(arrays.policy_step, arrays.epoch),
        unscored=unscored,
    )


def _with_advantages(content: bytes, advantages: NDArray[np.float64]) -> bytes:
    """Return an encoded group with ``[S]`` advantages; every other value keeps its bytes."""
    parts = _decode_parts(content)
    parts["advantages"] = Raw(msgspec.msgpack.encode(pack_array(advantages)))
    if "own_lengths" in parts:
        # Remove the lengths of the empty array that is replaced.
        others = _decode_parts(parts["own_lengths"])
        others.pop("advantages", None)
        parts["own_lengths"] = Raw(msgspec.msgpack.encode(others))
    return msgspec.msgpack.encode(parts)


def _open_fields(
    arrays: GroupArrays, place: tuple[str | int, ...], limits: Limits
) -> dict[str, Any]:
    """Check the fields sent as JSON, and return their values."""
    if len(arrays.json) > text_limits.MAX_FIELDS:
        most = text_limits.too_many(text_limits.MAX_FIELDS, "fields", "fields_per_group")
        raise InvalidPush(_path((*place, "json")), most.message)
    found = {}
    for name, text in arrays.json.items():
        loc = (*place, "json", name)
        try:
            text.decode()
            value = open_value(name, text, loc, limits)
            problems = message_problems(value, loc[:-1]) if name == "messages" else []
        except InvalidBody as error:
            problems = error.problems
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            raise InvalidPush(_path(loc), str(error)) from error
        for problem in problems:
            raise InvalidPush(_path(problem.loc), problem.msg)
        if name == "spans" and (wrong := span_problem(value, sequences=arrays.sequences)):
            raise InvalidPush(_path((*loc, *wrong.path)), wrong.message)
        found[name] = value
    return found


def _path(steps: tuple[str | int, ...]) -> str:
    parts = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps]
    return "".join(parts).lstrip(".")


def decode_fragments(body: bytes) -> list[tuple[Fragment, bytes | memoryview]]:
    """Return the validated fragments of a push with their bytes.

    Raises:
        InvalidPush: At the first value that does not match :mod:`rolldeck.wire`.
    """
    push = decode_envelope(batches.decode_push, body)
    return [
        (decode_fragment(content, f"fragments[{index}]"), content)
        for index, content in enumerate(push.fragments)
    ]


def decode_fragment(content: bytes | memoryview, place: str) -> Fragment:
    """Return a validated fragment; `place` is its path in errors.

    Raises:
        InvalidPush: If it does not match :mod:`rolldeck.wire`.
    """
    try:
        fragment = batches.decode_fragment(content)
        fragment_rules.check(fragment)
    except fragment_rules.BrokenFragment as error:
        raise InvalidPush(f"{place}.{error.field}", error.message) from error
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise invalid_push(place, error) from error
    if max(fragment.number >> 31, fragment.epoch, fragment.version_max) > (1 << 31) - 1:
        raise InvalidPush(place, "contains a number that is too large")
    return fragment
