"""Decode small JSON bodies with the leniencies of Atropos, and report errors by field."""

import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, Protocol, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from buffer.ingest.rules import text_limits
from buffer.ingest.rules.groups import Violation
from buffer.items.rules.limits import DEFAULTS, Limits
from rolldeck.structs import message_and_path
from rolldeck.wire import SCHEMA_VERSION
from web.rules.errors import FieldError, InvalidData

Loc = tuple[str | int, ...]
T = TypeVar("T", bound=Struct)
MAX_INT: Final = 2**31 - 1
# Locating a NaN takes twenty times the memory of the body.
NAMED_UP_TO_BYTES: Final = 2 * 1024 * 1024
_PATH = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


class BodyProblem(Struct, frozen=True):
    """One validation error of a body, in FastAPI's format."""

    loc: Loc
    msg: str
    type: str


class InvalidBody(ValueError):
    """A body is invalid; `problems` lists the errors by field."""

    def __init__(self, problems: Iterable[BodyProblem]) -> None:
        self.problems = list(problems)
        super().__init__("; ".join(f"{'.'.join(map(str, p.loc))}: {p.msg}" for p in self.problems))


class InvalidPush(FieldError, InvalidData):
    """A push is invalid; `field` is the path of the error."""


class _Envelope(Protocol):
    """A push of encoded items."""

    @property
    def schema(self) -> int:
        """Version of the wire format."""


E = TypeVar("E", bound=_Envelope)


def decode_envelope(decode: Callable[[bytes], E], body: bytes, *, wrong_format: str = "") -> E:
    """Return a push in MessagePack, whose items are not decoded yet.

    Args:
        decode: Decoder of the push.
        body: The body.
        wrong_format: Message for a body that is no MessagePack map.

    Raises:
        InvalidPush: If it does not match :mod:`rolldeck.wire`.
    """
    try:
        push = decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise invalid_push("", error, wrong_format=wrong_format) from error
    if push.schema != SCHEMA_VERSION:
        raise InvalidPush("schema", f"is {push.schema}, must be {SCHEMA_VERSION}")
    return push


def invalid_push(place: str, error: Exception, *, wrong_format: str = "") -> InvalidPush:
    """Return an error of msgspec within `place` as an error of the push."""
    message, path = message_and_path(error)
    field = ".".join(part for part in (place, path.lstrip(".")) if part)
    if not field and wrong_format:
        message = f"{wrong_format} ({message})"
    return InvalidPush(field or "body", message)


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


def decode(body: bytes, shape: type[T], *, limits: Limits = DEFAULTS) -> T:
    """Return a small body as `shape`.

    Raises:
        InvalidBody: If it is invalid; lists every invalid field.
    """
    refuse(text_limits.small_body(body, limits=limits), ("body",))
    parts = parts_of(body, ("body",))
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
            problems.append(problem_of(error, ("body", field.name)))
    if problems:
        raise InvalidBody(problems)
    return shape(**values)


def _check_storable(value: Any) -> None:
    if isinstance(value, str) and "\x00" in value:
        raise ValueError("must not contain the NUL character")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("must be a finite number")


def refuse(violation: Violation | None, loc: Loc) -> None:
    """Refuse a body that violates a limit.

    Raises:
        InvalidBody: If `violation` is not None.
    """
    if violation is not None:
        raise InvalidBody([problem_from(violation, loc)])


def problem_from(violation: Violation, loc: Loc) -> BodyProblem:
    """Return a violation as a problem of the body."""
    return BodyProblem((*loc, *violation.path), violation.message, violation.kind)


def parts_of(content: bytes, loc: Loc) -> dict[str, Raw]:
    """Return the undecoded fields of a JSON object.

    Raises:
        InvalidBody: If it is not a JSON object; the location is `loc`.
    """
    try:
        content.decode()
        return _decode_object(content)
    except msgspec.ValidationError as error:
        message = "Input should be a valid dictionary or object to extract fields from"
        raise InvalidBody([BodyProblem(loc, message, "model_attributes_type")]) from error
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise InvalidBody([not_json(content, error, loc)]) from error


def not_json(body: bytes, error: Exception, loc: Loc) -> BodyProblem:
    """Return why a body is not JSON; Python's encoder writes NaN and Infinity, which JSON lacks."""
    try:
        path = _path_to_infinity(json.loads(body)) if len(body) <= NAMED_UP_TO_BYTES else None
    except (ValueError, RecursionError):
        path = None
    if path is None:
        return problem_of(error, loc)
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


def problem_of(error: Exception, loc: Loc) -> BodyProblem:
    """Return an error of msgspec with its path as FastAPI's location."""
    if isinstance(error, RecursionError):
        return BodyProblem(loc, "nested too deeply (max_json_depth)", "too_deep")
    message, _, path = str(error).partition(" - at ")
    steps = [name or int(index) for name, index in _PATH.findall(path.strip("`"))]
    if missing := re.fullmatch(r"Object missing required field `(\w+)`", message):
        return BodyProblem((*loc, *steps, missing[1]), "Field required", "missing")
    kind = "json_invalid" if type(error) is msgspec.DecodeError else "value_error"
    return BodyProblem((*loc, *steps), message, kind)
