"""Policies that this server's administrator has registered."""

from importlib.metadata import entry_points

from django.conf import settings

from runs.config.rules.policy_kinds import ENTRY_POINTS


def registered_policies() -> list[str]:
    """Return the kinds from `ROLLDECK_POLICIES` and from installed packages."""
    packaged = (f"package:{point.name}" for point in entry_points(group=ENTRY_POINTS))
    return sorted({*settings.ROLLDECK_POLICIES, *packaged})
