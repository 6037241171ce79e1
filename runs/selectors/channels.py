"""Say whom the deck tells of alerts: the webhooks and the mail addresses of its settings."""

from typing import Final, NamedTuple

from django.conf import settings

from runs.core import webhooks
from runs.core.alerts import Severity

MAIL: Final = "mailto:"
_WEIGHTS: Final = list(Severity)


class Channel(NamedTuple):
    """One address that is told of alerts."""

    address: str
    """A URL: ``https://…``, which may be a secret, or ``mailto:…``."""
    least: Severity
    """Of the alerts that it is told of."""

    @property
    def is_mail(self) -> bool:
        """Return whether it is told by mail."""
        return self.address.startswith(MAIL)

    @property
    def label(self) -> str:
        """Return what may be shown of it."""
        return self.address if self.is_mail else webhooks.label(self.address)

    @property
    def fingerprint(self) -> str:
        """Return what tells it from the others, and not what it is."""
        return webhooks.fingerprint(self.address)

    def hears_of(self, severity: str) -> bool:
        """Return whether it is told of alerts that matter so much."""
        return _WEIGHTS.index(Severity(severity)) >= _WEIGHTS.index(self.least)


def channels() -> list[Channel]:
    """Return the channels that are set, webhooks first."""
    hooks = Severity(settings.ROLLDECK_ALERT_WEBHOOK_LEVEL)
    mails = Severity(settings.ROLLDECK_ALERT_EMAIL_LEVEL)
    return [
        *(Channel(url, hooks) for url in settings.ROLLDECK_ALERT_WEBHOOKS),
        *(Channel(MAIL + address, mails) for address in settings.ROLLDECK_ALERT_EMAILS),
    ]


def channel_of(fingerprint: str) -> Channel | None:
    """Return the channel of a fingerprint; None if none is set any more."""
    return next((one for one in channels() if one.fingerprint == fingerprint), None)
