"""Views of the messages of a sequence, with bounded texts and images."""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from buffer.inspect.rules.group_digest import content_text
from rolldeck.groups import GroupArrays
from web.rules.pages import Page, PageRequest

MOST_MESSAGES: Final = 500
_FIRST_PAGE: Final[PageRequest[int]] = PageRequest(limit=MOST_MESSAGES)
MOST_PICTURES: Final = 16
MOST_PICTURE_BYTES: Final = 1 << 20
_DATA_URL: Final = re.compile(r"data:(image/(?:png|jpeg|webp|gif));base64,([A-Za-z0-9+/=\s]*)")
_MAGIC: Final = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}


class Picture(Struct, frozen=True, kw_only=True):
    """An image of a message, always embedded: viewing it contacts no other server."""

    media_type: str
    size_bytes: int
    """Size of the decoded image."""
    data: str | None
    """Base64; null if the image exceeds 1 MiB."""


class MessageView(Struct, frozen=True, kw_only=True):
    """One message."""

    index: int
    role: str
    text: str
    """Text, truncated to the requested number of characters."""
    characters: int
    """Length of the whole text."""
    pictures: list[Picture]
    extra: str
    """All other fields, such as tool calls, as JSON; truncated like the text."""
    extra_characters: int
    """Length of the whole JSON."""


class Conversation(Page[MessageView], frozen=True, kw_only=True):
    """The messages of a sequence, in order."""

    total: int
    """Number of messages of the sequence."""
    pictures: list[Picture]
    """Images of the sequence that are stored outside its messages."""


def conversation(
    group: GroupArrays,
    index: int,
    *,
    characters: int,
    only: int | None = None,
    page: PageRequest[int] = _FIRST_PAGE,
) -> Conversation:
    """Return the messages of a sequence; the list may be empty.

    Args:
        group: The group.
        index: Index of the sequence.
        characters: Maximum length of each text, and of the other fields of each message.
        only: Position of a single message to return; None for all.
        page: The requested page; a position is the index of a message.
    """
    rows = messages_of(group)
    row = rows[index] if rows is not None else []
    messages = [one for one in row if isinstance(one, dict)] if isinstance(row, list) else []
    first = 0 if page.after is None else page.after + 1
    behind = range(len(messages))[first : first + page.limit + 1]
    places, cursor = page.cut(behind if only is None else [only], lambda place: place)
    images = _opened(group, "images")
    own = images[index] if isinstance(images, list) and len(images) == group.sequences else images
    return Conversation(
        results=[
            _message(place, messages[place], characters)
            for place in places
            if place < len(messages)
        ],
        next=cursor,
        total=len(messages),
        pictures=_pictures(own),
    )


def messages_of(group: GroupArrays) -> list[Any] | None:
    """Return the messages of each sequence.

    None without messages, or if their number is not that of the sequences: it is then unknown to
    which sequences they belong.
    """
    rows = _opened(group, "messages")
    return rows if isinstance(rows, list) and len(rows) == group.sequences else None


def _opened(group: GroupArrays, name: str) -> Any:
    try:
        return msgspec.json.decode(group.json.get(name, b"null"))
    except (msgspec.MsgspecError, RecursionError):
        return None


def _message(place: int, message: dict[str, Any], characters: int) -> MessageView:
    content = message.get("content")
    text = content_text(content)
    if not text and content is not None and not isinstance(content, str | list):
        text = msgspec.json.encode(content).decode()
    others = {name: value for name, value in message.items() if name not in {"role", "content"}}
    extra = msgspec.json.encode(others).decode() if others else ""
    return MessageView(
        index=place,
        role=str(message.get("role", ""))[:60],
        text=text[:characters],
        characters=len(text),
        pictures=_pictures(content) if isinstance(content, list) else [],
        extra=extra[:characters],
        extra_characters=len(extra),
    )


def _pictures(value: Any) -> list[Picture]:
    found = []
    for text in _texts(value, depth=0):
        picture = _picture(text)
        if picture is not None:
            found.append(picture)
        if len(found) == MOST_PICTURES:
            break
    return found


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
        kind, encoded = _kind_of(text[:16]), text
        if kind is None:
            return None
    size_bytes = len(encoded) * 3 // 4
    return Picture(
        media_type=kind,
        size_bytes=size_bytes,
        data=encoded if size_bytes <= MOST_PICTURE_BYTES else None,
    )


def _kind_of(beginning: str) -> str | None:
    try:
        head = base64.b64decode(beginning, validate=True)
    except (binascii.Error, ValueError):
        return None
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
