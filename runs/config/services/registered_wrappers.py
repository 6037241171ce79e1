"""Environment wrappers that this server's administrator has registered."""

from importlib.metadata import entry_points

from django.conf import settings

from runs.config.rules.environment_wrappers import ENTRY_POINTS


def registered_wrappers() -> list[str]:
    """Return the kinds from `ROLLDECK_ENVIRONMENT_WRAPPERS` and from installed packages."""
    packaged = (f"package:{point.name}" for point in entry_points(group=ENTRY_POINTS))
    return sorted({*settings.ROLLDECK_ENVIRONMENT_WRAPPERS, *packaged})
