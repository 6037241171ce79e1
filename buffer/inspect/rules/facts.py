"""Facts of a group for filters, columns and sort orders: its metadata and its overrides.

Keys have the prefix ``meta.`` or ``override.``; parts of nested objects are joined by dots.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from rolldeck.groups import GroupArrays

SOURCES: Final = ("meta", "override")
"""First parts of the keys of facts."""
MOST_FACTS: Final = 64
"""Maximum number of facts of a group; further ones are dropped."""
LONGEST_KEY: Final = 100
LONGEST_TEXT: Final = 200
MOST_VALUES: Final = 16
"""Maximum number of distinct values of a fact that differs between the sequences."""
LARGEST_FIELD: Final = 1 << 20
"""Bytes of JSON of the largest field that is read."""
_DEEPEST: Final = 4
_LARGEST: Final = 1 << 62
# Characters that end a key in filters, or separate keys in lists of columns, are not part of one.
_KEY: Final = re.compile(r'[^\s",:=~<>]+')
# Shown elsewhere, or too large.
_OTHERS: Final = frozenset(
    {"messages", "images", "spans", "lesson", "worker", "example", "is_truncated", "is_correct"}
    | {"finish_reasons", "overrides", "group_overrides", "distill_token_ids", "distill_logprobs"}
    | {"epoch", "policy_versions", "traceparent"}
)
Value = str | float | bool
Facts = dict[str, Value | list[Value]]


def is_fact(key: str) -> bool:
    """Return whether a key can be that of a fact."""
    source, dot, name = key.partition(".")
    return bool(
        source in SOURCES and dot and len(key) <= LONGEST_KEY and name and _KEY.fullmatch(name)
    )


def facts_of(group: GroupArrays) -> Facts:
    """Return the facts of a group.

    ``meta.`` are the entries of `metadata` and all other fields that Rolldeck does not know;
    ``override.`` those of `group_overrides` and `overrides`. A list with one item for each sequence
    has the distinct values of these; one value is stored as itself.
    """
    found: dict[str, list[Value]] = {}
    for name in sorted(group.json.keys() - _OTHERS):
        prefix = "meta" if name == "metadata" else f"meta.{name}"
        _add(found, prefix, decoded_field(group, name)[0], group.sequences)
    for name in ("group_overrides", "overrides"):
        _add(found, "override", decoded_field(group, name)[0], group.sequences)
    return {key: values[0] if len(values) == 1 else values for key, values in found.items()}


def decoded_field(group: GroupArrays, name: str) -> tuple[Any, bool]:
    """Return the content of a field of a group, and whether it could be read; None if not."""
    text = group.json.get(name, b"null")
    try:
        return (msgspec.json.decode(text), True) if len(text) <= LARGEST_FIELD else (None, False)
    except (msgspec.MsgspecError, RecursionError):
        return None, False


def _add(found: dict[str, list[Value]], prefix: str, content: Any, sequences: int) -> None:
    rows = content if isinstance(content, list) and len(content) == sequences else [content]
    for row in rows:
        for key, leaf in leaves(prefix, row):
            if not is_fact(key) or (value := _value(leaf)) is None:
                continue
            if key not in found and len(found) == MOST_FACTS:
                continue
            values = found.setdefault(key, [])
            # Booleans equal 0 and 1 in Python.
            if len(values) < MOST_VALUES and not any(
                value == one and isinstance(value, bool) is isinstance(one, bool) for one in values
            ):
                values.append(value)


def leaves(key: str, value: Any, depth: int = _DEEPEST) -> Iterator[tuple[str, Any]]:
    """Yield the values of nested objects with their keys, the parts of which are joined by dots."""
    if isinstance(value, Mapping):
        for name, each in value.items() if depth else ():
            if name:
                yield from leaves(f"{key}.{name}" if key else name, each, depth - 1)
    else:
        yield key, value


def _value(leaf: Any) -> Value | None:
    """Return a text, finite number or boolean; None for other values."""
    if isinstance(leaf, str):
        return leaf.replace("\x00", "\ufffd").encode(errors="replace").decode()[:LONGEST_TEXT]
    is_number = isinstance(leaf, int | float) and abs(leaf) <= _LARGEST
    return leaf if isinstance(leaf, bool) or is_number else None
