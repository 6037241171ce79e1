"""Summarise the content of groups, so that lists and searches need not open them."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final
from uuid import UUID

import msgspec
import numpy as np
from numpy.typing import NDArray

from buffer.inspect.rules.facts import Facts, facts_of
from buffer.inspect.rules.message_parts import parts_of
from buffer.inspect.rules.numbers import Numbers, numbers_of
from buffer.inspect.rules.sequence_views import mean_advantages
from rolldeck.groups import DISTILLATION, IGNORED, GroupArrays
from rolldeck.training.advantages import of_batch

MOST_SEQUENCES: Final = 64
"""Sequences whose scores and lengths are listed individually."""
MOST_TEXT: Final = 64_000
"""Characters of a group that are searchable; of longer texts the beginning and the end."""
EXCERPT: Final = 240
_MOST_DECODED_TOKENS: Final = 20_000

TextOf = Callable[[Sequence[int]], str]
"""Function that decodes tokens to text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDigest:
    """Summary of a group's content for lists and searches."""

    lesson: str
    worker: str
    example: str
    scores: list[float]
    """Scores of the first :data:`MOST_SEQUENCES` sequences."""
    lengths: list[int]
    """Lengths in tokens of the same sequences."""
    truncated: int
    """Number of sequences that were cut at a limit."""
    duplicates: int
    """Number of sequences with the same tokens as an earlier one."""
    excerpt: str
    """Beginning of the first user message, else of the first message."""
    answer: str
    """Beginning of the last answer of the first sequence, without reasoning; else its call."""
    prompt: UUID | None
    """Digest of its prompt, see :func:`prompt_digest`."""
    text: str
    """Searchable text of every message, at most :data:`MOST_TEXT` characters."""
    is_cut: bool
    """Whether some text is not searchable."""
    has_gradient: bool
    """See :func:`has_gradient`."""
    facts: Facts
    """Metadata and overrides by key, see :func:`facts_of`."""
    numbers: Numbers
    """Numbers for the series of its environment."""
    advantages: list[float | None]
    """Mean advantages of the same sequences; empty if the group has none."""
    correct: int | None
    """Number of correct sequences, by the environment's own report; None if unknown."""


def digest(
    group: GroupArrays, *, text_of: TextOf | None = None, limits: Iterable[int] = ()
) -> GroupDigest:
    """Return the digest of a group.

    Args:
        group: Its arrays.
        text_of: Decodes tokens to text, if a tokenizer is available.
        limits: Maximum sequence lengths in tokens of the run and the environment; used if the
            group does not report truncation. 0 means no limit.
    """
    rows = group.rows["tokens"]
    content: dict[str, Any] = {}
    for name in _TEXT_FIELDS:
        try:
            content[name] = msgspec.json.decode(group.json[name]) if name in group.json else None
        except (msgspec.MsgspecError, RecursionError, ValueError):
            content[name] = None
    messages = content["messages"]
    of_user = (one for one in _first_row(messages) if one.get("role") == "user")
    prompt = next((content_text(one.get("content")) for one in of_user), "")
    texts = _texts(messages)
    is_cut = False
    if not texts and text_of is not None:
        texts, is_cut = _decoded(group, text_of)
        prompt = text_of(_prompt_tokens(group)[:EXCERPT].tolist())
    text, is_shortened = fitted(texts, MOST_TEXT)
    return GroupDigest(
        lesson=_text_field(content, "lesson"),
        worker=_text_field(content, "worker"),
        example=_text_field(content, "example"),
        scores=[float(score) for score in group.scores[:MOST_SEQUENCES]],
        lengths=[int(length) for length in rows.lengths[:MOST_SEQUENCES]],
        truncated=_truncated(content, rows.lengths, limits),
        duplicates=duplicates(group),
        excerpt=clean(prompt or (texts[0] if texts else ""))[:EXCERPT],
        answer=_end(clean(_answer(messages, group, text_of))),
        prompt=prompt_digest(messages, group),
        text=clean(text),
        is_cut=is_cut or is_shortened,
        has_gradient=has_gradient(group),
        facts=facts_of(group),
        numbers=numbers_of(group),
        advantages=mean_advantages(group, MOST_SEQUENCES),
        correct=_correct(content["is_correct"], group.sequences),
    )


def _correct(flags: Any, sequences: int) -> int | None:
    if not isinstance(flags, list) or len(flags) != sequences:
        return None
    return sum(flags) if all(isinstance(flag, bool) for flag in flags) else None


def has_gradient(group: GroupArrays) -> bool:
    """Return whether a trained token of a group has an advantage other than 0.

    Of its own advantages, else of those from its scores. True for a group with a teacher's tokens,
    from which a trainer learns without advantages, and if it is unknown.
    """
    if group.distillation or not {*DISTILLATION}.isdisjoint(group.json):
        return True
    lengths, zero = group.rows["tokens"].lengths, group.overrides.zero_advantage
    if not np.array_equal(group.rows["masks"].lengths, lengths):
        return True
    own = group.rows.get("advantages")
    if own is None:
        if len(group.scores) != len(lengths):
            return True
        index = np.zeros(len(lengths), dtype=np.int64)
        from_scores = of_batch(
            group.scores, index, rule="dr_grpo", lengths=lengths, zero_advantage=zero
        )
        taught = np.repeat(from_scores != 0, lengths)
    elif group.has_advantage_per_sequence:
        taught = np.repeat((own.values != 0) & ~zero, lengths)
    elif np.array_equal(own.lengths, lengths):
        taught = (own.values != 0) & np.repeat(~zero, lengths)
    else:
        return True
    return bool((taught & (group.rows["masks"].values != IGNORED)).any())


def _end(text: str) -> str:
    """Return a text, or the end of a long one, which usually has the result."""
    return text if len(text) <= EXCERPT else f"…{text[1 - EXCERPT :]}"


def _answer(messages: Any, group: GroupArrays, text_of: TextOf | None) -> str:
    """Return the text of the last answer of the first sequence."""
    for message in reversed(_first_row(messages)):
        if message.get("role") == "assistant":
            parts = parts_of(message)
            texts = [part.text for part in parts if part.kind == "text"]
            calls = [f"{part.name} {part.text}" for part in parts if part.kind == "tool_call"]
            return "\n".join(texts or calls)
    lengths = group.rows["tokens"].lengths
    if text_of is None or not len(lengths) or not len(group.rows["masks"].lengths):
        return ""
    masks = group.rows["masks"].values[: int(group.rows["masks"].lengths[0])]
    own = np.flatnonzero(masks[: int(lengths[0])] != IGNORED)[-EXCERPT:]
    return text_of(group.rows["tokens"].values[own].tolist())


def prompt_digest(messages: Any, group: GroupArrays) -> UUID | None:
    """Return the digest of a group's prompt, which is equal for equal prompts in all runs.

    It covers the roles and texts before the first assistant message of the first sequence or, in
    a group without messages, the tokens before the first that is trained on. None if both are
    empty.
    """
    before = takewhile(lambda one: one.get("role") != "assistant", _first_row(messages))
    question = [(str(one.get("role")), content_text(one.get("content"))) for one in before]
    if question:
        return _fingerprint(msgspec.json.encode(question))
    prompt = _prompt_tokens(group)
    return _fingerprint(prompt.astype("<i8").tobytes()) if len(prompt) else None


def _prompt_tokens(group: GroupArrays) -> NDArray[Any]:
    """Return the tokens before the first that is trained on, of the first sequence."""
    lengths = group.rows["tokens"].lengths
    first = int(lengths[0]) if len(lengths) else 0
    own = np.flatnonzero(group.rows["masks"].values[:first] != IGNORED)
    tokens: NDArray[Any] = group.rows["tokens"].values[: int(own[0]) if len(own) else 0]
    return tokens


def _fingerprint(content: bytes) -> UUID:
    return UUID(bytes=hashlib.blake2b(content, digest_size=16).digest())


def _first_row(messages: Any) -> list[dict[str, Any]]:
    row = messages[0] if isinstance(messages, list) and messages else None
    return _objects(row if isinstance(row, list) else [])


def run_term(run_id: int) -> str:
    """Return the search word of a run; all its digests contain it, so one index serves all runs."""
    return f"run:{run_id}"


def duplicates(group: GroupArrays) -> int:
    """Return the number of sequences with the same tokens as an earlier one."""
    values, lengths = group.rows["tokens"]
    ends = np.cumsum(lengths)
    rows = {values[end - length : end].tobytes() for end, length in zip(ends, lengths, strict=True)}
    return len(lengths) - len(rows)


def clean(text: str) -> str:
    """Return text that PostgreSQL can store: without NUL and unpaired surrogates."""
    return text.replace("\x00", "\ufffd").encode(errors="replace").decode()


_TEXT_FIELDS: Final = (
    *("lesson", "worker", "example", "is_truncated", "is_correct"),
    *("overrides", "messages", "finish_reasons"),
)


def _text_field(content: Mapping[str, Any], name: str) -> str:
    value = content.get(name)
    return clean(value)[:120] if isinstance(value, str) else ""


def _truncated(content: Mapping[str, Any], lengths: Any, limits: Iterable[int]) -> int:
    """Count truncated sequences: as reported by the group, else by their lengths."""
    flags = content.get("is_truncated")
    if isinstance(flags, list):
        return sum(flag is True for flag in flags)
    reasons = content.get("finish_reasons")
    if isinstance(reasons, list):
        return sum(reason == "length" for reason in reasons)
    overrides = content.get("overrides")
    if isinstance(overrides, list) and any("finish_reason" in one for one in _objects(overrides)):
        return sum(one.get("finish_reason") == "length" for one in _objects(overrides))
    least = min((limit for limit in limits if limit > 0), default=0)
    return int((lengths >= least).sum()) if least else 0


def _objects(values: Iterable[Any]) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)]


def _texts(messages: Any) -> list[str]:
    """Return the distinct texts of all messages, with tool calls; sequences share their prompt."""
    texts: dict[str, None] = {}
    for row in messages if isinstance(messages, list) else []:
        for message in _objects(row if isinstance(row, list) else []):
            for part in parts_of(message):
                text = f"{part.name} {part.text}" if part.kind == "tool_call" else part.text
                # The JSON of other content may hold images.
                if part.kind != "other" and text:
                    texts[text] = None
    return list(texts)


def fitted(texts: Sequence[str], most: int) -> tuple[str, bool]:
    """Return the texts with line ends between them, and whether some are shortened.

    Short texts stay whole, and the others get equal shares of at most `most` characters: two thirds
    from the beginning, the rest from the end.
    """
    left, share = max(0, most - len(texts)), 0
    for place, length in enumerate(sorted(map(len, texts))):
        share = left // (len(texts) - place)
        if length > share:
            break
        left -= length
        share = length
    kept = []
    for text in texts:
        tail = share // 3
        is_whole = len(text) <= share
        kept.append(text if is_whole else f"{text[: share - tail]} {text[len(text) - tail :]}")
    is_shortened = any(len(text) > share for text in texts)
    return "\n".join(kept)[:most], is_shortened


def content_text(content: Any) -> str:
    """Return the text of a message, or the joined texts of its parts."""
    if isinstance(content, str):
        return content
    parts = _objects(content) if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def _decoded(group: GroupArrays, text_of: TextOf) -> tuple[list[str], bool]:
    """Return the distinct texts of the sequences, and whether some tokens are not decoded."""
    values, lengths = group.rows["tokens"]
    ends = np.cumsum(lengths)
    texts: dict[str, None] = {}
    left = _MOST_DECODED_TOKENS
    for end, length in zip(ends, lengths, strict=True):
        texts[text_of(values[end - length : end][:left].tolist())] = None
        if length > left:
            return list(texts), True
        left -= int(length)
    return list(texts), False
