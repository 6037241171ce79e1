"""Comparison of an answer's text with its rendering in a later prompt.

Chat templates render tool calls again, so the JSON of a call can have other spaces, another order
of its keys or other escapes than the policy wrote. Such a call is equal if both texts parse to the
same JSON value, and if this value is a call that the inference server reported. All other text must
be equal character by character.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

MOST_TRIES: Final = 256
"""Maximum number of braces before a difference at which a JSON value may begin."""


class ReportedCall(NamedTuple):
    """Tool call of an answer, as the inference server parsed it."""

    name: str
    arguments: str
    """Canonical JSON of an object."""


def reported_calls(message: dict[str, Any] | None) -> tuple[ReportedCall, ...]:
    """Return the tool calls of an answer whose arguments are a JSON object.

    Args:
        message: The answer as a message of OpenAI's chat completions; None for a completion.
    """
    functions = [call["function"] for call in (message or {}).get("tool_calls") or []]
    found = [(function["name"], _object(function["arguments"], 0)) for function in functions]
    return tuple(ReportedCall(name, _canonical(one[0])) for name, one in found if one is not None)


def matched_length(written: str, rendered: str, calls: Sequence[ReportedCall]) -> int | None:
    """Return the length of the beginning of `rendered` that equals `written`; None if none does.

    Args:
        written: Text of the sampled tokens.
        rendered: Text of a later prompt.
        calls: Tool calls in `written`, in order.
    """
    begin = place = 0
    rest = calls
    while True:
        shared = _shared(written[begin:], rendered[place:])
        if begin + shared == len(written):
            return place + shared
        found = _call_at(written, begin, rendered, place, shared, rest)
        if found is None:
            return None
        begin, place, rest = found


def _call_at(
    written: str,
    begin: int,
    rendered: str,
    place: int,
    shared: int,
    calls: Sequence[ReportedCall],
) -> tuple[int, int, Sequence[ReportedCall]] | None:
    """Return where the call ends in both texts that contains their first difference, or None.

    Args:
        written: Text of the sampled tokens; equal to `rendered` from `begin` for `shared`.
        begin: Place in it.
        rendered: Text of a later prompt.
        place: Place in it.
        shared: Number of equal characters before the difference.
        calls: Calls that may follow; the result has those after the found one.
    """
    brace = shared
    for _ in range(MOST_TRIES):
        brace = written.rfind("{", begin, begin + brace) - begin
        if brace < 0:
            return None
        one, other = _object(written, begin + brace), _object(rendered, place + brace)
        if one is None or other is None or one[1] <= begin + shared:
            continue
        if _canonical(one[0]) != _canonical(other[0]):
            continue
        for number, call in enumerate(calls):
            if _is_rendering(one[0], call):
                return one[1], other[1], calls[number + 1 :]
    return None


def _is_rendering(value: dict[str, Any], call: ReportedCall) -> bool:
    """Return whether a value is the arguments of a call, or an object with its name and them."""
    if _canonical(value) == call.arguments:
        return True
    if value.get("name") != call.name:
        return False
    return any(_canonical(part) == call.arguments for part in value.values())


def _object(text: str, begin: int) -> tuple[dict[str, Any], int] | None:
    """Return the JSON object at a position of a text and its end, or None."""
    try:
        value, end = DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None
    return (value, end) if isinstance(value, dict) else None


def _shared(one: str, other: str) -> int:
    """Return the number of equal characters at the beginning of both."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _canonical(value: Any) -> str:
    """Return the same text for equal JSON values; 1, 1.0 and true are different ones."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key occurs twice")
    return made


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)
