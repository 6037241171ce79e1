"""Set fields of a row and describe the changes for its event."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Model

Changes = dict[str, dict[str, Any]]
"""By field: the values `before` and `after`."""


def set_fields(row: Model, values: Mapping[str, Any]) -> Changes:
    """Set fields and return those that changed.

    The caller has locked the row, and saves it.
    """
    changes: Changes = {}
    for name, value in values.items():
        before = getattr(row, name)
        if value != before:
            setattr(row, name, value)
            changes[name] = {"before": before, "after": value}
    return changes


def describe_changes(changes: Changes) -> str:
    """Return changes as one line, by name: ``connected True → False, weight 1.0 → 2.0``."""
    return ", ".join(
        f"{name} {_text(change['before'])} → {_text(change['after'])}"
        for name, change in sorted(changes.items())
    )


def _text(value: object) -> str:
    return "none" if value is None else str(value)
