"""Policies, wrappers and callbacks that this server's administrator has registered."""

from importlib.metadata import entry_points

from django.conf import settings

from runs.config.rules.extensions import ExtensionPoint


def registered_extensions(point: ExtensionPoint) -> list[str]:
    """Return the names from the setting and from installed packages."""
    packaged = (f"package:{one.name}" for one in entry_points(group=point.entry_points))
    return sorted({*getattr(settings, point.setting), *packaged})
