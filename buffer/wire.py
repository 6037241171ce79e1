"""Decode what Atropos clients send, as leniently as Atropos does and no more.

A group is decoded once, field by field, to check it. What is kept are its bytes as they came,
with nulls appended for the optional fields that are absent; only a field that used a leniency
(a number in quotes, ``1.0`` for an integer) is written anew.
"""

import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, Raw, Struct

from buffer.core import group_rules
from buffer.core.group_rules import MAX_TOKEN_ID, Violation

Loc = tuple[str | int, ...]
T = TypeVar("T", bound=Struct)
MAX_INT: Final = 2**31 - 1


class BodyProblem(Struct, frozen=True):
    """One thing wrong with a body, in FastAPI's shape."""

    loc: Loc
    msg: str
    type: str


class InvalidBody(ValueError):
    """A body cannot be what it should; `problems` name the fields."""

    def __init__(self, problems: Iterable[BodyProblem]) -> None:
        self.problems = list(problems)
        super().__init__("; ".join(f"{'.'.join(map(str, p.loc))}: {p.msg}" for p in self.problems))


class Registration(Struct, frozen=True, kw_only=True):
    """Body of ``POST /register``; counts are of sequences, tokens and train steps."""

    wandb_group: Annotated[str, Meta(max_length=255)]
    wandb_project: Annotated[str, Meta(max_length=255)]
    batch_size: Annotated[int, Meta(ge=1, le=1 << 20)]
    max_token_len: Annotated[int, Meta(ge=0, le=MAX_INT)]
    checkpoint_dir: str
    save_checkpoint_interval: Annotated[int, Meta(ge=-1, le=MAX_INT)]
    starting_step: Annotated[int, Meta(ge=0, le=MAX_INT)]
    num_steps: Annotated[int, Meta(ge=-1, le=MAX_INT)]


class RegisterEnv(Struct, frozen=True, kw_only=True):
    """Body of ``POST /register-env``; `min_batch_allocation` is a share of each batch."""

    max_token_length: Annotated[int, Meta(ge=0, le=MAX_INT)]
    desired_name: Annotated[str, Meta(max_length=200)]
    weight: float
    group_size: Annotated[int, Meta(ge=1, le=MAX_INT)] = 1
    min_batch_allocation: Annotated[float, Meta(ge=0, le=1)] | None = None


class EnvIdentifier(Struct, frozen=True, kw_only=True):
    """Body of ``/status-env`` and ``/disconnect-env``."""

    env_id: int


class Group(Struct, frozen=True, kw_only=True):
    """One pushed group: what the queue must know of it, and the bytes to serve."""

    content: bytes
    env_id: int | None
    sequences: int
    tokens: int
    longest_tokens: int
    score_mean: float
    score_min: float
    score_max: float
    score_std: float
    notes: list[str]


_PATH = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_Rows = list[list[float]] | None


class _Field:
    """How one field of a group is decoded: strictly, else with Atropos' leniencies."""

    def __init__(self, strict: Any, loose: Any = None) -> None:
        self.decode: Callable[[Raw], Any] = msgspec.json.Decoder(strict).decode
        self.loose: Any = strict if loose is None else loose
        self.decode_loosely: Callable[[Raw], Any] = msgspec.json.Decoder(
            self.loose, strict=False
        ).decode


_TokenRows = list[list[Annotated[int, Meta(ge=0, le=MAX_TOKEN_ID)]]]
REQUIRED: Final = ("tokens", "masks", "scores")
FIELDS: Final = {
    "tokens": _Field(_TokenRows, list[list[int]]),
    "masks": _Field(list[list[int]]),
    "scores": _Field(list[float]),
    "advantages": _Field(_Rows),
    "ref_logprobs": _Field(_Rows),
    "messages": _Field(list[list[dict[str, Any]]] | None),
    "generation_params": _Field(dict[str, Any] | None),
    "inference_logprobs": _Field(_Rows),
    "overrides": _Field(list[dict[str, Any]] | None),
    "group_overrides": _Field(dict[str, Any] | None),
    "images": _Field(Any),
    "env_id": _Field(int | None),
    "distill_token_ids": _Field(list[list[list[int]]] | None),
    "distill_logprobs": _Field(list[list[list[float]]] | None),
}
OPTIONAL: Final = tuple(name for name in FIELDS if name not in REQUIRED)
# Fields whose values may hold anything, and so may be nested too deep.
_OPEN: Final = frozenset(
    {"messages", "generation_params", "overrides", "group_overrides", "images"}
)
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode


def decode(body: bytes, shape: type[T]) -> T:
    """Return a small body as `shape`.

    Raises:
        InvalidBody: If it is something else; it names every field that is wrong.
    """
    parts = _parts(body, ("body",))
    values: dict[str, Any] = {}
    problems: list[BodyProblem] = []
    for field in msgspec.structs.fields(shape):
        raw = parts.get(field.name)
        if raw is None:
            if field.required:
                problems.append(BodyProblem(("body", field.name), "Field required", "missing"))
            continue
        try:
            values[field.name] = msgspec.json.decode(raw, type=field.type, strict=False)
            _check_storable(values[field.name])
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            problems.append(_problem(error, ("body", field.name)))
    if problems:
        raise InvalidBody(problems)
    return shape(**values)


def _check_storable(value: Any) -> None:
    if isinstance(value, str) and "\x00" in value:
        raise ValueError("must not contain the NUL character")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("must be a finite number")


def decode_group(body: bytes, *, lenient: bool = False) -> Group:
    """Return the group of a ``POST /scored_data`` body.

    Raises:
        InvalidBody: If it is none, or breaks a rule and the run is not `lenient`.
    """
    return _groups([body.strip()], loc=lambda _: ("body",), lenient=lenient)[0]


def decode_groups(body: bytes, *, lenient: bool = False) -> list[Group]:
    """Return the groups of a ``POST /scored_data_list`` body, all or none.

    Raises:
        InvalidBody: If one is none, or breaks a rule and the run is not `lenient`.
    """
    try:
        slices = [bytes(part) for part in _decode_list(body)]
    except msgspec.ValidationError as error:
        raise InvalidBody([_problem(error, ("body",))]) from error
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise InvalidBody([_not_json(body, error, ("body",))]) from error
    return _groups(slices, loc=lambda index: ("body", index), lenient=lenient)


def _groups(slices: list[bytes], *, loc: Callable[[int], Loc], lenient: bool) -> list[Group]:
    groups, problems = [], []
    for index, content in enumerate(slices):
        try:
            groups.append(_group(content, loc(index), lenient=lenient))
        except InvalidBody as error:
            problems += error.problems
    if problems:
        raise InvalidBody(problems[:20])
    return groups


def _group(content: bytes, loc: Loc, *, lenient: bool) -> Group:
    parts = _parts(content, loc)
    missing = [name for name in REQUIRED if name not in parts]
    if missing:
        raise InvalidBody(
            [BodyProblem((*loc, name), "Field required", "missing") for name in missing]
        )
    fields, coerced = _fields(parts, loc)
    refused = group_rules.refusals(fields["tokens"])
    broken = group_rules.violations(fields)
    if "tokens" in coerced:
        broken += group_rules.token_violations(fields["tokens"])
    if refused or (broken and not lenient):
        raise InvalidBody(_as_problem(violation, loc) for violation in refused + broken)
    return _checked(_kept(content, parts, fields, coerced), fields, broken)


def _parts(content: bytes, loc: Loc) -> dict[str, Raw]:
    """Return the fields of an object, not decoded yet."""
    try:
        content.decode()
        return _decode_object(content)
    except msgspec.ValidationError as error:
        message = "Input should be a valid dictionary or object to extract fields from"
        raise InvalidBody([BodyProblem(loc, message, "model_attributes_type")]) from error
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise InvalidBody([_not_json(content, error, loc)]) from error


def _fields(parts: dict[str, Raw], loc: Loc) -> tuple[dict[str, Any], set[str]]:
    """Return the decoded fields and the names of those that needed a leniency."""
    fields: dict[str, Any] = {}
    coerced: set[str] = set()
    problems: list[BodyProblem] = []
    for name, raw in parts.items():
        try:
            fields[name] = _field(name, raw, coerced)
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError, ValueError) as error:
            problems.append(_problem(error, (*loc, name)))
    problems += _message_problems(fields.get("messages"), loc)
    if problems:
        raise InvalidBody(problems)
    return fields, coerced


def _field(name: str, raw: Raw, coerced: set[str]) -> Any:
    rule = FIELDS.get(name)
    if rule is None or name in _OPEN:
        value = msgspec.json.decode(raw) if rule is None else rule.decode(raw)
        if group_rules.too_deep(value):
            raise ValueError(f"nested deeper than {group_rules.MAX_DEPTH} levels")
        return value
    try:
        value = rule.decode(raw)
    except msgspec.ValidationError:
        value = rule.decode_loosely(raw)
        coerced.add(name)
        if name != "env_id" and not _finite(value):
            raise ValueError("holds a number that is not finite") from None
    # Atropos answers scores as floats, and trainers build tensors of them.
    if name == "scores" and name not in coerced and _some_integer(raw):
        coerced.add(name)
    return value


def _some_integer(raw: Raw) -> bool:
    return any(b"." not in part and b"e" not in part for part in bytes(raw).lower().split(b","))


def _finite(value: Any) -> bool:
    if isinstance(value, list):
        return all(_finite(item) for item in value)
    return value is None or math.isfinite(value)


def _message_problems(messages: Any, loc: Loc) -> list[BodyProblem]:
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


def _kept(
    content: bytes, parts: dict[str, Raw], fields: dict[str, Any], coerced: set[str]
) -> bytes:
    """Return the bytes to keep: as they came, absent optional fields as null."""
    if coerced:
        kept = {name: fields[name] if name in coerced else raw for name, raw in parts.items()}
        content = msgspec.json.encode(kept)
    absent = [name for name in OPTIONAL if name not in parts]
    nulls = "".join(f', "{name}": null' for name in absent)
    return content[:-1] + nulls.encode() + b"}"


def _checked(content: bytes, fields: dict[str, Any], broken: list[Violation]) -> Group:
    lengths = [len(row) for row in fields["tokens"]]
    scores = np.asarray(fields["scores"] or [0.0], dtype=np.float64)
    with np.errstate(all="ignore"):
        mean, std = float(scores.mean()), float(scores.std())
    return Group(
        content=content,
        env_id=fields.get("env_id"),
        sequences=len(lengths),
        tokens=sum(lengths),
        longest_tokens=max(lengths),
        score_mean=mean,
        score_min=float(scores.min()),
        score_max=float(scores.max()),
        score_std=std,
        notes=[f"{violation.path[0]}: {violation.kind}" for violation in broken]
        + group_rules.notes(fields),
    )


def _as_problem(violation: Violation, loc: Loc) -> BodyProblem:
    return BodyProblem((*loc, *violation.path), violation.message, violation.kind)


def _not_json(body: bytes, error: Exception, loc: Loc) -> BodyProblem:
    """Return why a body is no JSON; Python's encoder writes NaN and Infinity, which JSON lacks."""
    try:
        path = _path_to_infinity(json.loads(body))
    except (ValueError, RecursionError):
        path = None
    if path is None:
        return _problem(error, loc)
    return BodyProblem((*loc, *path), "Input should be a finite number", "finite_number")


def _path_to_infinity(value: Any) -> Loc | None:
    if isinstance(value, float) and not math.isfinite(value):
        return ()
    if not isinstance(value, dict | list):
        return None
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        path = _path_to_infinity(item)
        if path is not None:
            return (key, *path)
    return None


def _problem(error: Exception, loc: Loc) -> BodyProblem:
    """Return msgspec's complaint with its path as FastAPI's location."""
    if isinstance(error, RecursionError):
        return BodyProblem(loc, f"nested deeper than {group_rules.MAX_DEPTH} levels", "too_deep")
    message, _, path = str(error).partition(" - at ")
    steps = [name or int(index) for name, index in _PATH.findall(path.strip("`"))]
    if missing := re.fullmatch(r"Object missing required field `(\w+)`", message):
        return BodyProblem((*loc, *steps, missing[1]), "Field required", "missing")
    kind = "json_invalid" if type(error) is msgspec.DecodeError else "value_error"
    return BodyProblem((*loc, *steps), message, kind)
