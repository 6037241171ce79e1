"""Typed parts of a message: text, reasoning, tool calls with arguments, their results, images.

Sources are messages of OpenAI's chat completions and Responses, of Anthropic, and of Atropos
environments. Texts of assistants and tools are also parsed by the markup of common chat templates:
Hermes and Qwen (``<tool_call>``, ``<tool_response>``, ``<think>``), Qwen3-Coder and Llama 3
(``<function=…>``, ``<|python_tag|>``), Mistral (``[TOOL_CALLS]``) and gpt-oss (channels).
"""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

MOST_PARTS: Final = 200
"""Parts of one message; the rest of its content is in its last part."""
MOST_PICTURES: Final = 16
MOST_PICTURE_BYTES: Final = 1 << 20
_DATA_URL: Final = re.compile(r"data:(image/(?:png|jpeg|webp|gif));base64,([A-Za-z0-9+/=\s]*)")
_MAGIC: Final = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
_MARKUP: Final = re.compile(
    r"<think(?:ing)?>(?P<reasoning>.*?)(?:</think(?:ing)?>|\Z)"
    r"|<tool_call>(?P<call>.*?)(?:</tool_call>|\Z)"
    r"|<function=(?P<function>[^>\s]{1,200})>(?P<arguments>.*?)(?:</function>|\Z)"
    r"|<tool_response>(?P<result>.*?)(?:</tool_response>|\Z)"
    r"|<\|python_tag\|>(?P<python>.*?)(?:<\|eom_id\|>|<\|eot_id\|>|\Z)"
    r"|\[TOOL_CALLS\](?P<mistral>.*?)(?:</s>|\Z)"
    r"|<\|channel\|>(?P<channel>analysis|commentary|final)(?P<to>[^<]{0,200})"
    r"(?:<\|constrain\|>[^<]{0,40})?<\|message\|>(?P<said>.*?)"
    r"(?:<\|end\|>|<\|return\|>|<\|call\|>|\Z)(?:<\|start\|>assistant)?",
    re.DOTALL,
)
_END_OF_REASONING: Final = re.compile(r"</think(?:ing)?>")
_PARAMETER: Final = re.compile(r"<parameter=([^>\s]{1,200})>(.*?)(?:</parameter>|\Z)", re.DOTALL)
_MISTRAL_CALL: Final = re.compile(r"\s*([\w.-]{1,200})\[ARGS\](.*)", re.DOTALL)
_OF_TOOLS: Final = {"tool", "function", "ipython", "observation"}
_REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "thinking")
_TAKEN: Final = {"role", "content", "tool_calls", "function_call", *_REASONING_FIELDS}

Kind = Literal["text", "reasoning", "tool_call", "tool_result", "image", "other"]


class Picture(Struct, frozen=True, kw_only=True):
    """An image of a message, always embedded: viewing it contacts no other server."""

    media_type: str
    size_bytes: int
    """Size of the decoded image."""
    data: str | None
    """Base64; null if the image exceeds 1 MiB, and after the 16th image of a message."""


class MessagePart(Struct, frozen=True, kw_only=True):
    """A part of a message."""

    kind: Kind
    text: str = ""
    """Text of the part, truncated to the requested number of characters.

    For a tool call its arguments, as indented JSON if they are valid. For kind `other` its JSON.
    """
    characters: int = 0
    """Length of the whole text."""
    name: str = ""
    """Name of the tool, or type of another part."""
    call_id: str = ""
    """Joins a tool call with its result; empty if the message has none."""
    is_error: bool = False
    """True for the result of a failed tool call."""
    picture: Picture | None = None


def parts_of(message: dict[str, Any]) -> list[MessagePart]:
    """Return the parts of a message in the order in which they were written, untruncated."""
    found: list[MessagePart] = []
    for field in _REASONING_FIELDS:
        value = message.get(field)
        if isinstance(value, str) and value and not any(part.text == value for part in found):
            found.append(_part("reasoning", value))
    found += _of_content(message)
    calls = message.get("tool_calls")
    for call in [*(calls if isinstance(calls, list) else []), message.get("function_call")]:
        if isinstance(call, dict):
            found.append(_of_call(call))
        elif call is not None:
            found.append(_part("other", _json(call), name="tool_call"))
    images = [(place, part.picture) for place, part in enumerate(found) if part.picture]
    for place, picture in images[MOST_PICTURES:]:
        without = msgspec.structs.replace(picture, data=None)
        found[place] = MessagePart(kind="image", picture=without)
    if len(found) > MOST_PARTS:
        rest = "\n".join(part.text for part in found[MOST_PARTS - 1 :])
        found = [*found[: MOST_PARTS - 1], _part("other", rest, name="further parts")]
    return found


def other_fields(message: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a message that are in none of its parts."""
    known = set(_TAKEN)
    if str(message.get("role", "")) in _OF_TOOLS:
        known |= {"tool_call_id", "name"}
    unread = {name for name in _REASONING_FIELDS if not isinstance(message.get(name), str)}
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        unread.add("tool_calls")
    return {name: value for name, value in message.items() if name not in known - unread}


def cut(part: MessagePart, characters: int) -> MessagePart:
    """Return a part with at most this many characters of its text."""
    if len(part.text) <= characters:
        return part
    return msgspec.structs.replace(part, text=part.text[:characters])


def _of_content(message: dict[str, Any]) -> Iterator[MessagePart]:
    content, role = message.get("content"), str(message.get("role", ""))
    if role in _OF_TOOLS:
        yield from _result(
            content,
            call_id=_text(message.get("tool_call_id")),
            name=_text(message.get("name")),
        )
    elif isinstance(content, str):
        yield from _of_text(content, role)
    elif isinstance(content, list):
        for item in content:
            yield from _of_item(item, role)
    elif content is not None:
        yield _part("other", _json(content), name="content")


def _result(
    content: Any, *, call_id: str = "", name: str = "", is_error: bool = False
) -> Iterator[MessagePart]:
    items = content if isinstance(content, list) else [content]
    texts = [
        item if isinstance(item, str) else item["text"]
        for item in items
        if isinstance(item, str) or (isinstance(item, dict) and isinstance(item.get("text"), str))
    ]
    pictures = [picture for item in items if (picture := _picture_of(item))]
    text = "\n".join(texts)
    if not texts and not pictures and content not in (None, []):
        text = _json(content)
    text = "\n".join(_template_results(text)) or text
    yield MessagePart(
        kind="tool_result",
        text=text,
        characters=len(text),
        name=name,
        call_id=call_id,
        is_error=is_error,
    )
    for picture in pictures:
        yield MessagePart(kind="image", picture=picture)


def _template_results(text: str) -> list[str]:
    """Return the results in the tags of a chat template; none in a text that begins without."""
    before, *results = text.split("<tool_response>")
    if before.strip():
        return []
    return [result.strip().removesuffix("</tool_response>").rstrip() for result in results]


def _of_item(item: Any, role: str) -> Iterator[MessagePart]:
    """Yield the parts of an item of a list of content."""
    if isinstance(item, str):
        yield from _of_text(item, role)
        return
    if not isinstance(item, dict):
        yield _part("other", _json(item))
        return
    kind = _text(item.get("type"))
    match kind:
        case "tool_use" | "function_call":
            yield _of_call(item)
        case "tool_result" | "function_call_output":
            yield from _result(
                item.get("content", item.get("output")),
                call_id=_text(item.get("tool_use_id") or item.get("call_id")),
                is_error=item.get("is_error") is True,
            )
        case "thinking" | "reasoning":
            said = item.get("thinking") or item.get("text")
            summary = item.get("summary") or item.get("content")
            if not isinstance(said, str) and isinstance(summary, list):
                said = "\n".join(_text(one.get("text")) for one in summary if isinstance(one, dict))
            yield _part("reasoning", said if isinstance(said, str) else _json(item))
        case _ if (picture := _picture_of(item)) is not None:
            yield MessagePart(kind="image", picture=picture)
        case _ if isinstance(item.get("text"), str):
            yield from _of_text(item["text"], role)
        case _ if isinstance(item.get("refusal"), str):
            yield _part("text", item["refusal"], name="refusal")
        case _:
            yield _part("other", _json(item), name=kind)


def _of_text(text: str, role: str) -> Iterator[MessagePart]:
    """Yield the parts of a text by the markup of chat templates; a user's text has no calls."""
    if role not in {"assistant", "gpt", "model", "ai"}:
        results = _template_results(text)
        if not results and text:
            yield _part("text", text)
        for result in results:
            yield _part("tool_result", result)
        return
    # A template may write the opening tag in the prompt.
    ending = _END_OF_REASONING.search(text)
    if ending and not re.search(r"<think(?:ing)?>", text[: ending.start()]):
        if text[: ending.start()].strip():
            yield _part("reasoning", text[: ending.start()].strip())
        text = text[ending.end() :]
    end = 0
    for found in _MARKUP.finditer(text):
        yield from _plain(text[end : found.start()])
        yield from _of_markup(found)
        end = found.end()
    yield from _plain(text[end:])


def _plain(text: str) -> Iterator[MessagePart]:
    if text.strip():
        yield _part("text", text.strip("\n"))


def _of_markup(found: re.Match[str]) -> Iterator[MessagePart]:
    fields = found.groupdict()
    if (reasoning := fields["reasoning"]) is not None:
        if reasoning.strip():
            yield _part("reasoning", reasoning.strip())
    elif (call := fields["call"]) is not None:
        yield _written_call(call)
    elif fields["function"] is not None:
        yield _named_call(fields["function"], fields["arguments"])
    elif (result := fields["result"]) is not None:
        yield _part("tool_result", result.strip())
    elif (python := fields["python"]) is not None:
        yield _written_call(python)
    elif (mistral := fields["mistral"]) is not None:
        if named := _MISTRAL_CALL.fullmatch(mistral):
            yield _named_call(named[1], named[2])
            return
        calls = _read(mistral)
        for one in calls if isinstance(calls, list) else [calls]:
            yield _of_call(one) if isinstance(one, dict) else _part("tool_call", mistral.strip())
    else:
        said, to = fields["said"], re.search(r"to=(?:functions\.)?([\w.-]+)", fields["to"] or "")
        if to:
            yield _named_call(to[1], said)
        elif fields["channel"] == "analysis":
            yield _part("reasoning", said)
        else:
            yield from _plain(said)


def _written_call(text: str) -> MessagePart:
    """Return the call that a text contains, as JSON or in tags."""
    call = _read(text)
    if isinstance(call, dict) and ("name" in call or "function" in call):
        return _of_call(call)
    if named := re.search(r"<function=([^>\s]{1,200})>(.*)", text, re.DOTALL):
        return _named_call(named[1], named[2].removesuffix("</function>"))
    return _part("tool_call", text.strip())


def _named_call(name: str, arguments: str) -> MessagePart:
    """Return a call by its name; the arguments are JSON, or tags with a value each."""
    values = _PARAMETER.findall(arguments)
    if values:
        return _of_call({"name": name, "arguments": {key: value.strip() for key, value in values}})
    return _of_call({"name": name, "arguments": arguments.strip().removesuffix("</function>")})


def _of_call(call: dict[str, Any]) -> MessagePart:
    """Return a tool call, in the form of OpenAI, Anthropic or a chat template."""
    function = call.get("function")
    body = function if isinstance(function, dict) else call
    arguments: Any = None
    for field in ("arguments", "input", "parameters"):
        if field in body:
            arguments = body[field]
            break
    text = _indented(arguments)
    return MessagePart(
        kind="tool_call",
        text=text,
        characters=len(text),
        name=_text(body.get("name") or (function if isinstance(function, str) else ""))[:200],
        call_id=_text(call.get("id") or call.get("call_id"))[:200],
    )


def _indented(arguments: Any) -> str:
    if arguments is None:
        return ""
    value = _read(arguments) if isinstance(arguments, str) else arguments
    if isinstance(arguments, str) and not isinstance(value, dict | list):
        return arguments
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _read(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _part(kind: Kind, text: str, *, name: str = "") -> MessagePart:
    return MessagePart(kind=kind, text=text, characters=len(text), name=name[:200])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# Images.


def pictures_in(value: Any) -> list[Picture]:
    """Return the images in the texts of a value, at most :data:`MOST_PICTURES`."""
    found = []
    for text in _texts(value, depth=0):
        picture = _picture(text)
        if picture is not None:
            found.append(picture)
        if len(found) == MOST_PICTURES:
            break
    return found


def _picture_of(item: Any) -> Picture | None:
    """Return the image of an item of content; None for an item without one."""
    if not isinstance(item, dict) or item.get("type") == "text":
        return None
    return next(iter(pictures_in(item)), None)


def _texts(value: Any, *, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth < 8 and isinstance(value, dict | list):
        for below in value.values() if isinstance(value, dict) else value:
            yield from _texts(below, depth=depth + 1)


def _picture(text: str) -> Picture | None:
    """Return the image in a text: a data URL, or plain base64 of a known image type."""
    if text.startswith("data:"):
        found = _DATA_URL.fullmatch(text)
        if found is None:
            return None
        kind, encoded = found[1], found[2]
    else:
        try:
            head = base64.b64decode(text[:16], validate=True)
        except (binascii.Error, ValueError):
            return None
        known = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
        if known is None:
            return None
        kind, encoded = known, text
    size_bytes = len(encoded) * 3 // 4
    return Picture(
        media_type=kind,
        size_bytes=size_bytes,
        data=encoded if size_bytes <= MOST_PICTURE_BYTES else None,
    )
