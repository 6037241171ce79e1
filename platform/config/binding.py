"""Refuse to serve the network without the protections that a network needs."""

import ipaddress
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches what is bound to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def dangers(*, host: str, auth: str, debug: bool, has_own_secret: bool) -> list[str]:
    """Return why this deck must not be served on `host`, and what to do about each reason."""
    if is_loopback(host):
        return []
    found = []
    if auth != "required":
        found.append(
            f"ROLLDECK_HOST is {host!r}, which others can reach, and ROLLDECK_AUTH is {auth!r}; "
            "set ROLLDECK_AUTH=required, or bind to 127.0.0.1"
        )
    if not has_own_secret:
        found.append(
            f"ROLLDECK_HOST is {host!r}, which others can reach, and the secret key is the one "
            "that everybody knows; set ROLLDECK_SECRET_KEY"
        )
    if debug:
        found.append(
            f"ROLLDECK_HOST is {host!r}, which others can reach, and ROLLDECK_DEBUG shows "
            "secrets on error pages; set ROLLDECK_DEBUG=0"
        )
    return found


def dangers_of_settings() -> list[str]:
    """Return the dangers of the settings in force."""
    return dangers(
        host=settings.ROLLDECK_HOST,
        auth=settings.ROLLDECK_AUTH,
        debug=settings.DEBUG,
        has_own_secret=settings.SECRET_KEY != settings.INSECURE_SECRET_KEY,
    )


def refuse_dangers() -> None:
    """Do nothing for a safe deck; a server that calls this at its start serves no other.

    Raises:
        ImproperlyConfigured: With every reason.
    """
    found = dangers_of_settings()
    if found:
        raise ImproperlyConfigured("; ".join(found))


@register()
def check_binding(**_options: Any) -> list[CheckMessage]:
    """Show the dangers in `manage.py check`."""
    return [
        Error(danger, id=f"config.E{number:03d}")
        for number, danger in enumerate(dangers_of_settings(), start=1)
    ]
