"""Rules of silences: which alerts they cover, and until when."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from runs.alerts.rules.alerts import AlertKind
from web.rules.errors import InvalidField

LONGEST: Final = timedelta(days=30)
"""Longest silence. Disable the rule for a longer time."""


class InvalidSilence(InvalidField):
    """The silence is invalid; `field` names the part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Suppression of the notifications of one alert kind or rule until a given time."""

    kind: AlertKind
    rule_id: int | None = None
    """None for all rules."""
    run_id: int | None = None
    """None for all runs and the deployment."""
    until: datetime

    def covers(self, *, kind: str, subject: str, run_id: int | None) -> bool:
        """Return whether an alert is covered; `subject` is the rule's id for rule alerts."""
        return (
            kind == self.kind
            and (self.rule_id is None or subject == str(self.rule_id))
            and self.run_id in (None, run_id)
        )


def silenced_until(
    silences: Iterable[Silence], *, kind: str, subject: str, run_id: int | None
) -> datetime | None:
    """Return the latest end of the silences that cover an alert, or None."""
    return max(
        (one.until for one in silences if one.covers(kind=kind, subject=subject, run_id=run_id)),
        default=None,
    )
