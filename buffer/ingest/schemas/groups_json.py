"""Decode groups of Atropos clients, with exactly the leniencies of Atropos.

A group is read once, to check it. Its original bytes are stored, with nulls appended for absent
optional fields. Only fields that needed a leniency (a number in quotes, ``1.0`` for an integer)
are re-encoded.

Most groups need no leniency and are checked without creating Python objects for their numbers
(0.9 ms of CPU for 8 × 2,048 tokens, masks and logprobs; field by field it takes 2.8 ms). All other
groups, and groups to be refused, are decoded field by field; that decoder builds the messages.

If the run computes advantages, they replace the null of groups without advantages.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import compress
from typing import Annotated, Any, Final, Unpack

import msgspec
import numpy as np
from msgspec import Meta, Raw
from numpy.typing import NDArray

from buffer.ingest.rules import groups as group_rules
from buffer.ingest.rules import text_limits
from buffer.ingest.rules.groups import Lengths
from buffer.ingest.schemas.bodies import (
    BodyProblem,
    InvalidBody,
    Loc,
    not_json,
    parts_of,
    problem_from,
    problem_of,
    refuse,
)
from buffer.ingest.schemas.groups import (
    DecodingOptions,
    Group,
    Rules,
    checked_group,
    unscored_group,
)
from buffer.items.rules.limits import Limits
from rolldeck.groups import JSON, PER_SEQUENCE
from rolldeck.json_groups import PlainGroup, read_plain
from rolldeck.ragged import Rows

_Rows = list[list[float]] | None


class _Field:
    """Decoders of one field of a group: strict, and with the leniencies of Atropos."""

    def __init__(self, strict: Any, loose: Any = None) -> None:
        self.decode: Callable[[bytes | Raw], Any] = msgspec.json.Decoder(strict).decode
        self.loose: Any = strict if loose is None else loose
        self.decode_loosely: Callable[[Raw], Any] = msgspec.json.Decoder(
            self.loose, strict=False
        ).decode

    def decode_booleans(self, raw: Raw) -> Any:
        """Return numbers, with ``true`` and ``false`` decoded as 1 and 0."""
        numbers = _without_booleans(msgspec.json.decode(raw))
        return msgspec.convert(numbers, self.loose, strict=False)


def _without_booleans(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_booleans(item) for item in value]
    return int(value) if isinstance(value, bool) else value


# Numbers that fit no array could be stored but not served.
_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
REQUIRED: Final = ("tokens", "masks", "scores")
FIELDS: Final = {
    "tokens": _Field(list[list[int]]),
    "masks": _Field(list[list[int]]),
    "scores": _Field(list[int | float], list[float]),
    "advantages": _Field(_Rows),
    "ref_logprobs": _Field(_Rows),
    "messages": _Field(list[list[dict[str, Any]]] | None),
    "generation_params": _Field(dict[str, Any] | None),
    "inference_logprobs": _Field(_Rows),
    "overrides": _Field(list[dict[str, Any]] | None),
    "group_overrides": _Field(dict[str, Any] | None),
    "images": _Field(Any),
    "env_id": _Field(int | None),
    "policy_step": _Field(Annotated[int, Meta(ge=0, lt=1 << 31)] | None),
    "epoch": _Field(Any),
    "distill_token_ids": _Field(list[list[list[_Int64]]] | None),
    "distill_logprobs": _Field(list[list[list[float]]] | None),
}
# Additional fields of Rolldeck, which Atropos does not return.
VERSION: Final = ("policy_step", "epoch")
OPTIONAL: Final = tuple(name for name in FIELDS if name not in REQUIRED + VERSION)
# Fields with one row of numbers per sequence.
_ROWS: Final = ("tokens", "masks", "advantages", "ref_logprobs", "inference_logprobs")
# Numeric fields, in which Atropos accepts booleans as 1 and 0.
_NUMBERS: Final = frozenset({*_ROWS, "scores", "distill_token_ids", "distill_logprobs"})
# Fields with arbitrary values, which may be nested too deeply.
_OPEN: Final = frozenset(
    {"messages", "generation_params", "overrides", "group_overrides", "images", "epoch"}
)
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


def decode_group(body: bytes, **options: Unpack[DecodingOptions]) -> Group:
    """Return the group of a ``POST /scored_data`` body; adds `advantages` if it has none.

    Raises:
        InvalidBody: If it is invalid, over a limit, or violates a rule and is not `lenient`.
    """
    return _groups([body.strip()], loc=lambda _: ("body",), rules=Rules(**options))[0]


def decode_groups(body: bytes, **options: Unpack[DecodingOptions]) -> list[Group]:
    """Return the groups of a ``POST /scored_data_list`` body, all or none.

    Raises:
        InvalidBody: If one is invalid, over a limit, or violates a rule and is not `lenient`.
    """
    rules = Rules(**options)
    limits = rules.limits
    refuse(text_limits.push(body, limits=limits), ("body",))
    try:
        slices = [bytes(part) for part in _decode_list(body)]
    except msgspec.ValidationError as error:
        raise InvalidBody([problem_of(error, ("body",))]) from error
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise InvalidBody([not_json(body, error, ("body",))]) from error
    if len(slices) > limits.groups_per_push:
        too_many = text_limits.too_many(limits.groups_per_push, "groups", "groups_per_push")
        refuse(too_many, ("body",))
    return _groups(slices, loc=lambda index: ("body", index), rules=rules)


def _groups(slices: list[bytes], *, loc: Callable[[int], Loc], rules: Rules) -> list[Group]:
    groups, problems = [], []
    for index, content in enumerate(slices):
        try:
            place = loc(index)
            refuse(text_limits.group(content, limits=rules.limits), place)
            unscored = 0
            if rules.takes_unscored:
                content, unscored = _scored_part(content)
                if unscored and (empty := _without_scores(content, unscored)):
                    groups.append(empty)
                    continue
            plain = read_plain(content)
            group = None if plain is None else _plain_group(content, plain, rules, unscored)
            del plain  # its arrays are freed before the next group is read
            groups.append(group or _validated_group(content, place, rules, unscored))
        except InvalidBody as error:
            problems += error.problems
    if problems:
        raise InvalidBody(problems[:20])
    return groups


def _scored_part(content: bytes) -> tuple[bytes, int]:
    """Return a group without its sequences whose score is null, and their number."""
    try:
        parts = _decode_object(content)
        scores = _decode_list(parts["scores"])
    except (KeyError, msgspec.MsgspecError, RecursionError, ValueError):
        return content, 0  # the decoders name the problem
    kept = [bytes(score) != b"null" for score in scores]
    if all(kept):
        return content, 0
    for name in {"scores", *_ROWS, *PER_SEQUENCE} & parts.keys():
        with suppress(msgspec.ValidationError):
            entries = _decode_list(parts[name])
            if len(entries) == len(kept):
                parts[name] = Raw(msgspec.json.encode([*compress(entries, kept)]))
    return msgspec.json.encode(parts), kept.count(False)


def _without_scores(content: bytes, unscored: int) -> Group | None:
    """Return the group if none of its sequences had a score."""
    parts = _decode_object(content)
    if bytes(parts["scores"]) != b"[]":
        return None
    env_id = None
    with suppress(msgspec.ValidationError):
        env_id = msgspec.json.decode(parts.get("env_id", Raw(b"null")), type=int | None)
    return unscored_group(env_id=env_id, sequences=unscored)


def _plain_group(content: bytes, plain: PlainGroup, rules: Rules, unscored: int) -> Group | None:
    """Return a valid group, else None."""
    try:
        open_fields = {
            name: open_value(name, raw, (), rules.limits) for name, raw in plain.others.items()
        }
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    messages = open_fields.get("messages")
    rows = {name: rows.lengths.tolist() for name, rows in plain.rows.items()}
    lengths = Lengths.of(rows, scores=len(plain.scores), fields=open_fields)
    broken = group_rules.violations(lengths) + group_rules.token_violations(plain.rows["tokens"])
    refused = group_rules.refusals(lengths.rows["tokens"], limits=rules.limits)
    if refused or (broken and not rules.lenient) or message_problems(messages, ()):
        return None
    added = _advantages(rules, lengths, plain.scores, open_fields)
    if added is not None and "advantages" in plain.present:
        return None  # the field decoder replaces the explicit null
    return checked_group(
        _completed(content, set(OPTIONAL) - plain.present, added),
        codec=JSON,
        env_id=plain.env_id,
        lengths=lengths,
        tokens=plain.rows["tokens"],
        masks=plain.rows["masks"],
        scores=plain.scores,
        broken=broken,
        version=(open_fields.get("policy_step"), open_fields.get("epoch")),
        unscored=unscored,
    )


def _validated_group(content: bytes, loc: Loc, rules: Rules, unscored: int) -> Group:
    parts = parts_of(content, loc)
    missing = [name for name in REQUIRED if name not in parts]
    if missing:
        raise InvalidBody(
            [BodyProblem((*loc, name), "Field required", "missing") for name in missing]
        )
    fields, coerced = _fields(parts, loc, rules.limits)
    rows = {
        name: [len(row) for row in fields[name]] for name in _ROWS if fields.get(name) is not None
    }
    lengths = Lengths.of(rows, scores=len(fields["scores"]), fields=fields)
    refused = group_rules.refusals(lengths.rows["tokens"], limits=rules.limits)
    tokens, masks = _token_rows(fields["tokens"]), _token_rows(fields["masks"])
    broken = group_rules.violations(lengths)
    broken += group_rules.token_violations(tokens) + group_rules.mask_violations(masks)
    if refused or (broken and not rules.lenient):
        raise InvalidBody(problem_from(violation, loc) for violation in refused + broken)
    scores = np.asarray(fields["scores"], dtype=np.float64)
    added = _advantages(rules, lengths, scores, fields)
    if added is not None and "advantages" in parts:
        fields["advantages"] = added
        coerced.add("advantages")
    # The original bytes are stored, except for fields that needed a leniency.
    if coerced:
        kept = {name: fields[name] if name in coerced else raw for name, raw in parts.items()}
        content = msgspec.json.encode(kept)
    return checked_group(
        _completed(content, set(OPTIONAL) - parts.keys(), added),
        codec=JSON,
        env_id=fields.get("env_id"),
        lengths=lengths,
        tokens=tokens,
        masks=masks,
        scores=scores,
        broken=broken,
        version=(fields.get("policy_step"), fields.get("epoch")),
        unscored=unscored,
    )


def _token_rows(tokens: list[list[int]]) -> Rows:
    try:
        return Rows.of(tokens, np.int64)
    except OverflowError:  # larger than any numpy integer
        return Rows.of(tokens, object)


def _fields(parts: dict[str, Raw], loc: Loc, limits: Limits) -> tuple[dict[str, Any], set[str]]:
    """Return the decoded fields, and the names of fields that needed a leniency."""
    fields: dict[str, Any] = {}
    coerced: set[str] = set()
    problems: list[BodyProblem] = []
    for name, raw in parts.items():
        try:
            if name in _OPEN or name not in FIELDS:
                fields[name] = open_value(name, raw, (*loc, name), limits)
            else:
                fields[name] = _field(name, raw, coerced)
        except InvalidBody as error:
            problems += error.problems
        except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError) as error:
            problems.append(problem_of(error, (*loc, name)))
    problems += message_problems(fields.get("messages"), loc)
    if problems:
        raise InvalidBody(problems)
    return fields, coerced


def _field(name: str, raw: Raw, coerced: set[str]) -> Any:
    rule = FIELDS[name]
    try:
        value = rule.decode(raw)
    except msgspec.ValidationError:
        value = _decoded_loosely(name, raw)
        coerced.add(name)
        if name != "env_id" and not _finite(value):
            raise ValueError("contains a number that is not finite") from None
    # Atropos returns scores as floats, from which trainers build tensors.
    if name == "scores" and not all(type(score) is float for score in value):
        coerced.add(name)
        value = [float(score) for score in value]
    return value


def _decoded_loosely(name: str, raw: Raw) -> Any:
    rule = FIELDS[name]
    try:
        return rule.decode_loosely(raw)
    except msgspec.ValidationError:
        if name not in _NUMBERS or not any(word in bytes(raw) for word in (b"true", b"false")):
            raise
    return rule.decode_booleans(raw)


def open_value(name: str, raw: bytes | Raw, loc: Loc, limits: Limits) -> Any:
    """Decode a field with arbitrary content, after checking its limits."""
    refuse(text_limits.open_field(bytes(raw), limits=limits), loc)
    return FIELDS[name].decode(raw) if name in FIELDS else msgspec.json.decode(raw)


def _finite(value: Any) -> bool:
    if isinstance(value, list):
        return all(_finite(item) for item in value)
    return value is None or isinstance(value, int) or math.isfinite(value)


def message_problems(messages: Any, loc: Loc) -> list[BodyProblem]:
    """Return the problems of a group's messages; `loc` is the location of the group."""
    return [
        BodyProblem(
            (*loc, "messages", row, column),
            "Message must have 'role' and 'content' fields",
            "value_error",
        )
        for row, conversation in enumerate(messages or [])
        for column, message in enumerate(conversation)
        if "role" not in message or "content" not in message
    ]


def _advantages(
    rules: Rules, lengths: Lengths, scores: NDArray[Any], fields: Mapping[str, Any]
) -> Raw | None:
    """Return the advantages to add in Atropos' form, ``[S][T]``: one number per token."""
    found = rules.advantages_of(lengths, scores, fields)
    if found is None:
        return None
    rows = zip(found.tolist(), lengths.rows["tokens"], strict=True)
    written = [b",".join([msgspec.json.encode(value)] * length) for value, length in rows]
    return Raw(b"[[" + b"],[".join(written) + b"]]")


def _completed(content: bytes, absent: set[str], added: Raw | None) -> bytes:
    values = dict.fromkeys((name for name in OPTIONAL if name in absent), b"null")
    if added is not None and "advantages" in absent:
        values["advantages"] = bytes(added)
    appended = [b', "%s": %s' % (name.encode(), value) for name, value in values.items()]
    return b"".join((memoryview(content)[:-1], *appended, b"}"))
