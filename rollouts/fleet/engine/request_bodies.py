"""Bodies of requests: limits, schemas, and a check that every field is supported."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from starlette.requests import Request

from rollouts.fleet.engine.openai_messages import Refused

MOST_BODY_BYTES: Final = 32 << 20
UNUSED: Final = frozenset(
    {
        *("user", "metadata", "store", "service_tier", "safety_identifier"),
        *("prompt_cache_key", "prompt_cache_retention", "parallel_tool_calls"),
        *("cache_salt", "priority", "request_id", "rid", "log_metrics", "stream_interval"),
    }
)
"""Fields of OpenAI, vLLM and SGLang that change no answer; accepted with any value."""
NEUTRAL: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "frequency_penalty": 0,
        "presence_penalty": 0,
        "repetition_penalty": 1,
        "length_penalty": 1,
        "min_p": 0,
        "typical_p": 1,
        "min_tokens": 0,
        "min_new_tokens": 0,
        "best_of": 1,
        "top_logprobs": 0,
        "top_logprobs_num": 0,
        "logprob_start_len": -1,
        "response_format": {"type": "text"},
        "modalities": ["text"],
        "tool_choice": "none",
        "detokenize": True,
        "skip_special_tokens": True,
        "spaces_between_special_tokens": True,
        "add_generation_prompt": True,
    }
)
"""The value without effect of unsupported fields. Of others it is null, false and an empty one."""

A = TypeVar("A", bound=Struct)


async def read_body(request: Request, kind: type[A], *, ignored: Collection[str] = ()) -> A:
    """Return the decoded body of a request; see `decoded`."""
    return decoded(await read_json(request), kind, ignored=ignored)


async def read_json(request: Request) -> dict[str, Any]:
    """Return the fields of a request's body.

    Raises:
        Refused: If it is too large, or no JSON object.
    """
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BODY_BYTES:
            raise Refused(f"the body exceeds {MOST_BODY_BYTES} bytes", status=413)
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.ValidationError as error:
        raise Refused(f"the body is no JSON object: {error}") from error
    except msgspec.DecodeError as error:
        raise Refused(f"the body is not valid JSON: {error}") from error


def decoded(raw: dict[str, Any], kind: type[A], *, ignored: Collection[str] = ()) -> A:
    """Return a body as a struct; null counts as absent.

    Args:
        raw: The fields of the body.
        kind: Their schema.
        ignored: Fields of `kind` whose unknown fields are ignored.

    Raises:
        Refused: If a field is invalid or not supported; `param` names it.
    """
    given = _without_nulls(raw)
    try:
        body = msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        raise Refused(message, param=path.strip("`").removeprefix("$.") or None) from error
    check_fields(given, kind, ignored=ignored)
    return body


def _without_nulls(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a body that are set, and of its parameters for sampling."""
    given = {name: value for name, value in raw.items() if value is not None}
    if isinstance(params := given.get("sampling_params"), dict):
        given["sampling_params"] = {
            name: value for name, value in params.items() if value is not None
        }
    return given


def check_fields(
    raw: Mapping[str, Any], kind: type[Struct], *, path: str = "", ignored: Collection[str] = ()
) -> None:
    """Check that a request has only fields that are supported, or without effect.

    Args:
        raw: The decoded body.
        kind: Its schema.
        path: Location of `raw`, with a dot at its end.
        ignored: Fields whose own fields are not checked.

    Raises:
        Refused: With the first other field.
    """
    schema = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for name, value in raw.items():
        inner = schema.get(name)
        if name in schema:
            if isinstance(inner, type) and issubclass(inner, Struct) and name not in ignored:
                check_fields(value, inner, path=f"{path}{name}.")
        elif name not in UNUSED and not _is_neutral(name, value):
            raise Refused(f"{path}{name} is not supported", param=f"{path}{name}")


def _is_neutral(name: str, value: Any) -> bool:
    if name in NEUTRAL:
        return value == NEUTRAL[name]
    # By identity: 0 has an effect in some fields.
    return value is False or (isinstance(value, str | list | dict) and not value)
