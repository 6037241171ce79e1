"""Bodies of requests and responses, and types of their fields."""

from collections.abc import Collection
from typing import Annotated, Final, TypeVar

import msgspec
from django.conf import settings
from django.http import HttpResponse
from msgspec import Meta
from rest_framework.request import Request

from rolldeck.structs import message_and_path
from web.rules import json_shape
from web.rules.errors import Invalid

# Field types that requests of all apps share.

Name = Annotated[str, Meta(min_length=1, max_length=80, pattern=r"^[a-zA-Z0-9_-]+$")]
"""Name of a run or preset, as part of a URL."""
Reason = Annotated[str, Meta(max_length=2000)]
"""Reason of a change, for the audit log."""


# Decode JSON bodies into messages, and encode messages as responses.

T = TypeVar("T")


class InvalidBody(Invalid):
    """A body or query is invalid; `field` is the path of the invalid part."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field or "body"
        self.message = message


def read(request: Request, kind: type[T]) -> T:
    """Return the JSON body as a `kind`; an empty body counts as ``{}``.

    Raises:
        InvalidBody: If it is not JSON, or a field has a wrong type or value.
    """
    return decoded(request.body or b"{}", kind)


def decoded(body: bytes, kind: type[T], *, inside: str = "") -> T:
    """Return JSON bytes as a `kind`; `inside` names the field that contained them.

    Raises:
        InvalidBody: If they are not JSON, or a field has a wrong type or value.
    """
    depth, values = settings.ROLLDECK_MAX_JSON_DEPTH, settings.ROLLDECK_MAX_JSON_VALUES
    # Such bodies would take too much memory once decoded.
    if json_shape.too_many_values(body, max_values=values):
        raise InvalidBody(inside, f"contains more than {values} values (max_json_values)")
    if json_shape.too_deep(body, max_depth=depth):
        message = f"nested deeper than {depth} levels (max_json_depth)"
        raise InvalidBody(_joined(inside, _deep_field(body, depth)), message)
    try:
        json_shape.check(msgspec.json.decode(body))
        return msgspec.json.decode(body, type=kind)
    except json_shape.NotStorable as error:
        raise InvalidBody(_joined(inside, error.field), error.message) from error
    except msgspec.ValidationError as error:
        message, path = message_and_path(error)
        # msgspec writes [...] for the key of a mapping; it is omitted.
        field = path.replace("[...]", "").lstrip(".")
        # Some messages name the field at their end, in backquotes.
        quoted = message.split("`")
        named = quoted[-2] if "field" in message and len(quoted) >= 3 else ""
        raise InvalidBody(_joined(_joined(inside, field), named), message) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidBody(inside, f"not valid JSON: {error}") from error


def _deep_field(body: bytes, depth: int) -> str:
    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    below = depth - 1
    deep = [
        name for name, raw in fields.items() if json_shape.too_deep(bytes(raw), max_depth=below)
    ]
    return deep[0] if deep else ""


def _joined(inside: str, field: str) -> str:
    return f"{inside}.{field}" if inside and field else inside or field


def whole_number(
    request: Request, name: str, *, default: int | None, at_least: int, at_most: int
) -> int | None:
    """Return an integer query parameter.

    Raises:
        InvalidBody: If it is not an integer or out of range.
    """
    raw = request.query_params.get(name)
    if raw is None:
        return default
    if not raw.isascii() or not raw.isdigit() or not at_least <= int(raw[:20]) <= at_most:
        raise InvalidBody(name, f"must be a whole number from {at_least} to {at_most}")
    return int(raw)


def text_parameter(request: Request, name: str, *, choices: Collection[str] = ()) -> str:
    """Return a text of the query, empty without one.

    Raises:
        InvalidBody: If it contains NUL, or is not one of the choices, if there are any.
    """
    word = request.query_params.get(name, "")
    if "\x00" in word:
        raise InvalidBody(name, "must not contain the NUL character")
    if word and choices and word not in choices:
        raise InvalidBody(name, f"must be one of {', '.join(choices)}")
    return word


REASON_LETTERS: Final = 2000


def reason_in(request: Request, *, is_required: bool = False) -> str:
    """Return the reason of a deletion from the query, as DELETE requests may have no body.

    Raises:
        InvalidBody: If it is too long or contains NUL, or if it is required and blank.
    """
    reason = request.query_params.get("reason", "")
    if is_required and not reason.strip():
        raise InvalidBody("reason", "required")
    if len(reason) > REASON_LETTERS or "\x00" in reason:
        raise InvalidBody("reason", f"must be at most {REASON_LETTERS} characters without NUL")
    return reason


def answer(
    message: msgspec.Struct, *, status: int = 200, is_replayed: bool = False
) -> HttpResponse:
    """Return `message` as JSON; `is_replayed` marks the answer to a repeated push."""
    return HttpResponse(
        msgspec.json.encode(message),
        status=status,
        content_type="application/json",
        headers={"Idempotent-Replayed": "true"} if is_replayed else None,
    )
