"""Samples of an Inspect log: one per sequence, with its messages, tool calls, score and version.

The form is that of ``inspect_ai.log.EvalLog``, version 2, in one JSON file. Source:
https://inspect.aisi.org.uk/eval-logs.html.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from buffer.inspect.rules.message_parts import MessagePart, other_fields, parts_of
from buffer.inspect.rules.sequence_views import messages_of, own_tokens, split, summaries
from buffer.inspect.rules.token_text import Pieces
from rolldeck.groups import GroupArrays

VERSION: Final = 2
_ROLES: Final = {
    "developer": "system",
    **dict.fromkeys(("gpt", "model", "ai"), "assistant"),
    **dict.fromkeys(("function", "ipython", "observation"), "tool"),
}
_KNOWN_ROLES: Final = {"system", "user", "assistant", "tool"}
METADATA: Final = (
    *("state", "drop_reason", "env_id", "lesson", "worker", "producer", "epoch", "policy_step"),
    *("step", "received_at", "tags", "note"),
)
Json = dict[str, Any]


def samples(
    group: GroupArrays, group_id: int, metadata: Json, *, model: str, pieces: Pieces | None
) -> Iterator[Json]:
    """Yield a sample for each sequence of a group; `epoch` is its index plus 1.

    `metadata` has the known values of :data:`METADATA`. A sequence without messages is its prompt
    and its answer as text, or as token ids if `pieces` is None.
    """
    rows, tokens, own = messages_of(group), split(group.rows["tokens"]), own_tokens(group)
    for one in summaries(group, has_text=pieces is not None).results:
        given = rows[one.index] if rows else None
        messages = (
            [each for message in given if isinstance(message, dict) for each in _messages(message)]
            if isinstance(given, list) and given
            else _of_tokens(tokens[one.index], own[one.index], pieces)
        )
        first = next((n for n, each in enumerate(messages) if each["role"] == "assistant"), None)
        answer = next((each for each in reversed(messages) if each["role"] == "assistant"), None)
        ending = "max_tokens" if one.is_truncated else "stop"
        scores: Json = {}
        if one.score is not None:
            scores["score"] = {"value": one.score}
        if one.is_correct is not None:
            scores["correct"] = {"value": "C" if one.is_correct else "I"}
        numbers = {"tokens": one.tokens, "own_tokens": one.own_tokens}
        optional = {"advantage": one.advantage, "logprob": one.logprob}
        yield {
            "id": group_id,
            "epoch": one.index + 1,
            "input": messages[:first],
            "target": "",
            "messages": messages,
            "output": {
                "model": model,
                "choices": [{"message": answer, "stop_reason": ending}] if answer else [],
            },
            "scores": scores,
            "metadata": metadata
            | numbers
            | {name: value for name, value in optional.items() if value is not None},
        }


def unreadable(group_id: int, metadata: Json, reason: str) -> Json:
    """Return the sample of a group without readable content: its metadata and the reason."""
    error = {"message": reason, "traceback": "", "traceback_ansi": ""}
    return {
        "id": group_id,
        "epoch": 1,
        "input": "",
        "target": "",
        "messages": [],
        "metadata": metadata,
        "error": error,
    }


def _of_tokens(tokens: NDArray[Any], own: NDArray[np.bool_], pieces: Pieces | None) -> list[Json]:
    start = int(np.argmax(own)) if own.any() else len(tokens)

    def text(part: NDArray[Any]) -> str:
        ids = part.tolist()
        return "".join(pieces(ids)) if pieces else " ".join(map(str, ids))

    prompt = {"role": "user", "content": text(tokens[:start])}
    answer = {"role": "assistant", "content": text(tokens[start:])}
    return [prompt, answer] if start < len(tokens) else [prompt]


def _messages(message: Mapping[str, Any]) -> Iterator[Json]:
    """Yield a message; each tool result of a user's message is a message of its own."""
    role = str(message.get("role", "user"))
    role = _ROLES.get(role, role)
    parts = parts_of(dict(message))
    calls = [part for part in parts if part.kind == "tool_call"]
    results = [part for part in parts if part.kind == "tool_result"]
    content = [item for part in parts if (item := _content(part)) is not None]
    if role == "tool" and results:
        yield _result(results[0], [*map(_text, results), *content])
        return
    for part in results:
        yield _result(part, [_text(part)])
    if results and not content and not calls:
        return
    made: Json = {"role": role if role in _KNOWN_ROLES else "user", "content": content}
    if role == "assistant":
        made["tool_calls"] = [_call(part, place) for place, part in enumerate(calls)]
    else:
        # Only an assistant's message has calls in Inspect.
        content += [{"type": "text", "text": f"{call.name}({call.text})"} for call in calls]
    others = other_fields(dict(message))
    if others:
        made["metadata"] = others
    yield made


def _text(part: MessagePart) -> Json:
    return {"type": "text", "text": part.text}


def _content(part: MessagePart) -> Json | None:
    if part.kind == "reasoning":
        return {"type": "reasoning", "reasoning": part.text}
    if part.kind == "image":
        picture = part.picture
        if picture is None or picture.data is None:
            return {"type": "text", "text": "[image not included]"}
        return {"type": "image", "image": f"data:{picture.media_type};base64,{picture.data}"}
    if part.kind in {"text", "other"}:
        return _text(part)
    return None


def _call(part: MessagePart, place: int) -> Json:
    try:
        arguments = msgspec.json.decode(part.text)
    except msgspec.MsgspecError:
        arguments = None
    call: Json = {"id": part.call_id or f"call-{place}", "function": part.name}
    if isinstance(arguments, dict):
        return call | {"arguments": arguments}
    if not part.text:
        return call | {"arguments": {}}
    # Arguments that are no JSON object are kept as they were written.
    return call | {"arguments": {"": part.text}, "parse_error": "arguments are not a JSON object"}


def _result(part: MessagePart, content: list[Json]) -> Json:
    made: Json = {"role": "tool", "content": content}
    if part.call_id:
        made["tool_call_id"] = part.call_id
    if part.name:
        made["function"] = part.name
    if part.is_error:
        made["error"] = {"type": "unknown", "message": part.text}
    return made
