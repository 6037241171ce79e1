"""Refuse to serve a network without authentication, an own secret key and DEBUG off."""

from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured

from rollouts.fleet.process import child_environment
from runs.access.rules import is_loopback

_OPEN_BEHIND_PROXY: Final = (
    "ROLLDECK_HTTPS=1 or a ROLLDECK_PUBLIC_URL that is not loopback indicates a proxy that others "
    "can reach, and ROLLDECK_AUTH is 'open'; set ROLLDECK_AUTH=required"
)


def has_proxy() -> bool:
    """Return whether the settings indicate a proxy that others can reach."""
    public_host = urlsplit(settings.ROLLDECK_PUBLIC_URL).hostname or ""
    return bool(settings.SESSION_COOKIE_SECURE) or not is_loopback(public_host)


def dangers(
    *, host: str, auth: str, debug: bool, has_own_secret: bool, has_proxy: bool = False
) -> list[str]:
    """Return the reasons against serving on `host`, each with a remedy.

    Args:
        host: Address to bind.
        auth: `open` or `required`.
        debug: Whether error pages show Django's details.
        has_own_secret: Whether the secret key is not the default.
        has_proxy: Whether the settings indicate a proxy that others can reach.
    """
    if is_loopback(host):
        return [_OPEN_BEHIND_PROXY] if has_proxy and auth != "required" else []
    found = []
    if auth != "required":
        found.append(
            f"ROLLDECK_HOST is {host!r}, which others can reach, and ROLLDECK_AUTH is {auth!r}; "
            "set ROLLDECK_AUTH=required, or bind to 127.0.0.1"
        )
    if not has_own_secret:
        found.append(
            f"ROLLDECK_HOST is {host!r}, which others can reach, and the secret key is the public "
            "default; set ROLLDECK_SECRET_KEY"
        )
    if debug:
        found.append(
            f"ROLLDECK_HOST is {host!r}, which others can reach, and ROLLDECK_DEBUG shows "
            "secrets on error pages; set ROLLDECK_DEBUG=0"
        )
    return found


def dangers_of_settings() -> list[str]:
    """Return the dangers of the active settings."""
    found = dangers(
        host=settings.ROLLDECK_HOST,
        auth=settings.ROLLDECK_AUTH,
        debug=settings.DEBUG,
        has_own_secret=settings.SECRET_KEY != settings.INSECURE_SECRET_KEY,
        has_proxy=has_proxy(),
    )
    try:
        child_environment.environment_user()
    except child_environment.InvalidEnvironmentUser as error:
        found.append(str(error))
    return found


def refuse_dangers() -> None:
    """Refuse to start a server with unsafe settings.

    Raises:
        ImproperlyConfigured: With every reason.
    """
    found = dangers_of_settings()
    if found:
        raise ImproperlyConfigured("; ".join(found))


@register()
def check_binding(**_options: Any) -> list[CheckMessage]:
    """Report the dangers in `manage.py check`."""
    return [
        Error(danger, id=f"config.E{number:03d}")
        for number, danger in enumerate(dangers_of_settings(), start=1)
    ]
