"""Views of the sequences of a group and of their messages, in bounded windows."""

import math
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from buffer.inspect.rules.message_parts import (
    MessagePart,
    Picture,
    cut,
    other_fields,
    parts_of,
    pictures_in,
)
from buffer.inspect.rules.token_text import Pieces
from buffer.items.rules.spans import Span, valid_spans
from rolldeck.groups import IGNORED, GroupArrays
from rolldeck.ragged import Rows
from web.rules.errors import NotFound
from web.rules.pages import Page, PageRequest

MOST_MESSAGES: Final = 500
_FIRST_PAGE: Final[PageRequest[int]] = PageRequest(limit=MOST_MESSAGES)


class MessageView(Struct, frozen=True, kw_only=True):
    """One message."""

    index: int
    role: str
    parts: list[MessagePart]
    """Parts in the order of their writing; each text is truncated to the requested length."""
    characters: int
    """Length of all texts together."""
    extra: str
    """Fields that are in no part, as JSON; truncated like the texts."""
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
    images = _json_of(group, "images")
    own = images[index] if isinstance(images, list) and len(images) == group.sequences else images
    return Conversation(
        results=[
            _message_view(place, messages[place], characters)
            for place in places
            if place < len(messages)
        ],
        next=cursor,
        total=len(messages),
        pictures=pictures_in(own),
    )


def messages_of(group: GroupArrays) -> list[Any] | None:
    """Return the messages of each sequence.

    None without messages, or if their number is not that of the sequences: it is then unknown to
    which sequences they belong.
    """
    rows = _json_of(group, "messages")
    return rows if isinstance(rows, list) and len(rows) == group.sequences else None


def _json_of(group: GroupArrays, name: str) -> Any:
    try:
        return msgspec.json.decode(group.json.get(name, b"null"))
    except (msgspec.MsgspecError, RecursionError):
        return None


def _message_view(place: int, message: dict[str, Any], characters: int) -> MessageView:
    parts = parts_of(message)
    others = other_fields(message)
    extra = msgspec.json.encode(others).decode() if others else ""
    return MessageView(
        index=place,
        role=str(message.get("role", ""))[:60],
        parts=[cut(part, characters) for part in parts],
        characters=sum(part.characters for part in parts),
        extra=extra[:characters],
        extra_characters=len(extra),
    )


MOST_TURNS: Final = 2000
MOST_SURPRISES: Final = 500
SURPRISING_LOGPROB: Final = -2.0
"""Sampled tokens below this log probability, about 1 in 7, are listed as surprises."""
MOST_FIELD_CHARACTERS: Final = 4000
_CONTEXT_TOKENS: Final = 4
"""Tokens decoded around a window, because a character may span several byte tokens."""


class NoSuchSequence(NotFound):
    """The group has no sequence with this index."""


class SequenceSummary(Struct, frozen=True, kw_only=True):
    """A sequence without its tokens."""

    index: int
    score: float | None
    tokens: int
    own_tokens: int
    """Number of tokens that are trained on."""
    advantage: float | None
    """Mean over the tokens that are trained on; null if the group has no advantages."""
    zero_advantage: bool
    """True if the environment requires trainers to set its advantage to 0."""
    temperature: float | None
    """Temperature at which it was sampled; null if the group does not state it."""
    logprob: float | None
    """Mean over the same tokens; natural log, by the sampling policy."""
    is_truncated: bool | None
    is_correct: bool | None
    duplicate_of: int | None
    """Index of an earlier sequence with the same tokens."""
    diverges_at: int
    """Number of leading tokens that it shares with the previous sequence."""
    turns: list[tuple[int, int, bool]]
    """Ranges in order: first token, one past the last, and whether it is trained on."""
    surprises: list[int]
    """Positions of its least likely trained tokens, in order."""
    spans: list[Span]
    """Timed spans of its generation, as reported by its environment; may be empty."""


class GroupField(Struct, frozen=True, kw_only=True):
    """An additional field of a group, as JSON."""

    name: str
    text: str
    """JSON text, truncated."""
    characters: int
    """Length of the whole text."""


class SequenceList(Page[SequenceSummary], frozen=True, kw_only=True):
    """The sequences of a group."""

    common_prefix: int
    """Number of leading tokens that all sequences share."""
    has_text: bool
    """True if a tokenizer is available."""
    has_messages: bool
    fields: list[GroupField]


class SequenceWindow(Struct, frozen=True, kw_only=True):
    """Consecutive tokens of a sequence; all columns are as long as `tokens`."""

    index: int
    start: int
    total: int
    """Number of tokens of the whole sequence."""
    tokens: list[int]
    text: list[str] | None
    """Text of each token; null without a tokenizer."""
    is_own: list[bool]
    """True if the token is trained on."""
    logprobs: list[float | None] | None
    """Natural log, by the sampling policy; null for tokens that it did not sample."""
    ref_logprobs: list[float | None] | None
    advantages: list[float | None] | None


def summaries(group: GroupArrays, *, has_text: bool) -> SequenceList:
    """Return the sequences of a group without their tokens."""
    tokens = split(group.rows["tokens"])
    own = own_tokens(group)
    is_truncated, is_correct = _flags(group, "is_truncated"), _flags(group, "is_correct")
    first_with: dict[bytes, int] = {}
    spans = valid_spans(group.json.get("spans"))
    overrides = group.overrides
    results = []
    for index, row in enumerate(tokens):
        earlier = first_with.setdefault(row.tobytes(), index)
        results.append(
            SequenceSummary(
                index=index,
                score=_number(group.scores[index]) if index < len(group.scores) else None,
                tokens=len(row),
                own_tokens=int(own[index].sum()),
                advantage=_mean(group, "advantages", index, own[index]),
                zero_advantage=bool(overrides.zero_advantage[index]),
                temperature=_number(np.round(overrides.temperature[index].astype(float), 6)),
                logprob=_mean(group, "inference_logprobs", index, own[index]),
                is_truncated=is_truncated.get(index),
                is_correct=is_correct.get(index),
                duplicate_of=None if earlier == index else earlier,
                diverges_at=shared(tokens[index - 1], row) if index else len(row),
                turns=turns(own[index]),
                surprises=surprises(_row(group, "inference_logprobs", index), own[index]),
                spans=spans.get(index, []),
            )
        )
    fields = []
    elsewhere = {"images"} if messages_of(group) is None else {"images", "messages"}
    for name, text in group.json.items():
        if name in elsewhere:
            continue
        written = text.decode(errors="replace")
        fields.append(
            GroupField(
                name=name[:200], text=written[:MOST_FIELD_CHARACTERS], characters=len(written)
            )
        )
    return SequenceList(
        results=results,
        next=None,
        common_prefix=min((one.diverges_at for one in results), default=0),
        has_text=has_text,
        has_messages=messages_of(group) is not None,
        fields=fields,
    )


def window(
    group: GroupArrays, index: int, *, start: int, count: int, pieces: Pieces | None
) -> SequenceWindow:
    """Return up to `count` tokens of a sequence from `start` on.

    Raises:
        NoSuchSequence: If the index does not exist.
    """
    if not 0 <= index < group.sequences:
        raise NoSuchSequence(
            f"sequence {index} does not exist: the group has {group.sequences}, from 0"
        )
    row = split(group.rows["tokens"])[index]
    start = min(start, len(row))
    part = slice(start, min(start + count, len(row)))
    own = own_tokens(group)[index]
    text = None
    if pieces is not None:
        begin = max(0, part.start - _CONTEXT_TOKENS)
        around = pieces(row[begin : part.stop + _CONTEXT_TOKENS].tolist())
        text = around[part.start - begin : part.stop - begin]
    return SequenceWindow(
        index=index,
        start=start,
        total=len(row),
        tokens=row[part].tolist(),
        text=text,
        is_own=own[part].tolist(),
        logprobs=_column(group, "inference_logprobs", index, part, own),
        ref_logprobs=_column(group, "ref_logprobs", index, part, own),
        advantages=_column(group, "advantages", index, part, own),
    )


def shared(one: NDArray[Any], other: NDArray[Any]) -> int:
    """Return the length of the common prefix of two sequences."""
    length = min(len(one), len(other))
    differ = np.flatnonzero(one[:length] != other[:length])
    return int(differ[0]) if len(differ) else length


def turns(own: NDArray[np.bool_]) -> list[tuple[int, int, bool]]:
    """Return the ranges that are or are not trained on; at most :data:`MOST_TURNS`."""
    if not len(own):
        return []
    starts = [0, *(np.flatnonzero(own[1:] != own[:-1]) + 1).tolist()]
    ends = [*starts[1:], len(own)]
    return [(start, end, bool(own[start])) for start, end in zip(starts, ends, strict=True)][
        :MOST_TURNS
    ]


def surprises(logprobs: NDArray[Any] | None, own: NDArray[np.bool_]) -> list[int]:
    """Return the positions of the :data:`MOST_SURPRISES` least likely own tokens, in order."""
    if logprobs is None or len(logprobs) != len(own):
        return []
    places = np.flatnonzero(own & (logprobs < SURPRISING_LOGPROB))
    if len(places) > MOST_SURPRISES:
        least = np.argpartition(logprobs[places], MOST_SURPRISES)[:MOST_SURPRISES]
        places = np.sort(places[least])
    found: list[int] = places.tolist()
    return found


def split(rows: Rows) -> list[NDArray[Any]]:
    """Return the values of each row."""
    return np.split(rows.values, np.cumsum(rows.lengths)[:-1]) if len(rows.lengths) else []


def own_tokens(group: GroupArrays) -> list[NDArray[np.bool_]]:
    """Return which tokens of each sequence are trained on; missing masks mean not trained on."""
    masks, found = split(group.rows["masks"]), []
    for index, row in enumerate(split(group.rows["tokens"])):
        mask = masks[index] if index < len(masks) else np.zeros(0)
        own = np.zeros(len(row), dtype=bool)
        length = min(len(row), len(mask))
        own[:length] = np.asarray(mask[:length]) != IGNORED
        found.append(own)
    return found


def _row(group: GroupArrays, name: str, index: int) -> NDArray[Any] | None:
    rows = group.rows.get(name)
    if rows is None or index >= len(rows.lengths):
        return None
    end = int(rows.lengths[: index + 1].sum())
    values: NDArray[Any] = rows.values[end - int(rows.lengths[index]) : end]
    return values


def _column(
    group: GroupArrays, name: str, index: int, part: slice, own: NDArray[np.bool_]
) -> list[float | None] | None:
    row = _row(group, name, index)
    if row is None:
        return None
    if len(row) == 1 != len(own):
        row = np.full(len(own), row[0])
    values = np.round(row[part].astype(np.float64), 6).tolist()
    values += [math.nan] * (len(own[part]) - len(values))
    # Atropos sets the logprob of tokens that the policy did not sample to 1, which is no logprob.
    is_given = own[part] | (name == "advantages")
    return [
        _number(value) if is_known else None
        for value, is_known in zip(values, is_given.tolist(), strict=True)
    ]


def _mean(group: GroupArrays, name: str, index: int, own: NDArray[np.bool_]) -> float | None:
    row = _row(group, name, index)
    if row is None:
        return None
    if len(row) == 1 != len(own):
        return _number(row[0])
    if len(row) != len(own) or not own.any():
        return None
    return _number(row[own].mean(dtype=np.float64))


def mean_advantages(group: GroupArrays, most: int) -> list[float | None]:
    """Return the mean advantages of the first sequences; empty if the group has none."""
    if "advantages" not in group.rows:
        return []
    own = own_tokens(group)[:most]
    return [_mean(group, "advantages", index, tokens) for index, tokens in enumerate(own)]


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _flags(group: GroupArrays, name: str) -> dict[int, bool]:
    values = _json_of(group, name)
    flags = values if isinstance(values, list) else []
    return {index: flag for index, flag in enumerate(flags) if isinstance(flag, bool)}
