"""Notification channels: the webhooks and mail addresses of the settings."""

from typing import Final, NamedTuple

from django.conf import settings

from runs.alerts import rules
from runs.alerts.rules import Severity

MAIL: Final = "mailto:"
_WEIGHTS: Final = list(Severity)


class Channel(NamedTuple):
    """One notification channel."""

    address: str
    """A URL: ``https://…``, which may be secret, or ``mailto:…``."""
    least: Severity
    """Minimum severity of its alerts."""

    @property
    def is_mail(self) -> bool:
        """Return whether the channel is a mail address."""
        return self.address.startswith(MAIL)

    @property
    def label(self) -> str:
        """Return the displayable part of the address."""
        return self.address if self.is_mail else rules.label(self.address)

    @property
    def fingerprint(self) -> str:
        """Return a hash that identifies the channel without revealing its address."""
        return rules.fingerprint(self.address)

    def receives_severity(self, severity: str) -> bool:
        """Return whether the channel receives alerts of this severity."""
        return _WEIGHTS.index(Severity(severity)) >= _WEIGHTS.index(self.least)


def channels() -> list[Channel]:
    """Return the configured channels, webhooks first."""
    hooks = Severity(settings.ROLLDECK_ALERT_WEBHOOK_LEVEL)
    mails = Severity(settings.ROLLDECK_ALERT_EMAIL_LEVEL)
    return [
        *(Channel(url, hooks) for url in settings.ROLLDECK_ALERT_WEBHOOKS),
        *(Channel(MAIL + address, mails) for address in settings.ROLLDECK_ALERT_EMAILS),
    ]


def channel_of(fingerprint: str) -> Channel | None:
    """Return the channel with a fingerprint, or None if it is not configured."""
    return next((one for one in channels() if one.fingerprint == fingerprint), None)
