"""Limits on JSON text, checked before decoding.

Every function returns the violated limit, or None; paths are relative to the text.
"""

from typing import Final

from buffer.ingest.rules.groups import Violation
from buffer.items.rules.limits import Limits
from web.rules import json_shape

MAX_FIELDS: Final = 1024
"""Maximum number of fields of one group, known and unknown."""


def small_body(text: bytes, *, limits: Limits) -> Violation | None:
    """Check a body with a few fields."""
    return _values(text, limits.json_values, "json_values")


def push(text: bytes, *, limits: Limits) -> Violation | None:
    """Check the number of groups in a list; only large texts are scanned."""
    if len(text) // 2 <= limits.json_values:
        return None
    return _items(text, limits.groups_per_push, "groups", "groups_per_push")


def group(text: bytes, *, limits: Limits) -> Violation | None:
    """Check one group."""
    found = _values(text, limits.values_per_group, "values_per_group")
    # Fields cost more than values; count them only in texts with very many colons.
    crowded = len(text) // 4 > limits.json_values and text.count(b":") > limits.json_values
    if found is None and crowded:
        return _items(text, MAX_FIELDS, "fields", "fields_per_group")
    return found


def open_field(text: bytes, *, limits: Limits) -> Violation | None:
    """Check a field of a group with arbitrary content."""
    if json_shape.too_deep(text, max_depth=limits.json_depth - 1):
        message = f"nested deeper than {limits.json_depth} levels (max_json_depth)"
        return Violation(path=(), message=message, kind="too_deep")
    return _values(text, limits.json_values, "json_values")


def too_many(most: int, what: str, limit: str) -> Violation:
    """Return the violation of a maximum count."""
    message = f"holds more than {most} {what} (max_{limit})"
    return Violation(path=(), message=message, kind="too_long")


def _values(text: bytes, most: int, limit: str) -> Violation | None:
    if json_shape.too_many_values(text, max_values=most):
        return too_many(most, "values", limit)
    return None


def _items(text: bytes, most: int, what: str, limit: str) -> Violation | None:
    if json_shape.too_many_items(text, max_items=most):
        return too_many(most, what, limit)
    return None
