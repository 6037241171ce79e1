"""Decide which alerts a silence covers."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from runs.core.alerts import AlertKind

LONGEST: Final = timedelta(days=30)
"""What is to be still for longer is no alert, and its rule is better disabled."""


class InvalidSilence(ValueError):
    """A silence cannot be as it is; `field` says which part."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Alerts of one kind, or of one rule, of one run or of all, send nothing until a moment."""

    kind: AlertKind
    rule_id: int | None = None
    """None: of every rule."""
    run_id: int | None = None
    """None: of every run, and of the deck."""
    until: datetime

    def covers(self, *, kind: str, subject: str, run_id: int | None) -> bool:
        """Return whether an alert is meant; of a rule's alerts the subject is the rule's id."""
        return (
            kind == self.kind
            and (self.rule_id is None or subject == str(self.rule_id))
            and self.run_id in (None, run_id)
        )


def silenced_until(
    silences: Iterable[Silence], *, kind: str, subject: str, run_id: int | None
) -> datetime | None:
    """Return until when an alert is silenced, by whichever lasts longest; None if by none."""
    return max(
        (one.until for one in silences if one.covers(kind=kind, subject=subject, run_id=run_id)),
        default=None,
    )
