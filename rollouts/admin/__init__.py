"""Admin pages of fleets, lessons, metrics and saved settings."""

from rollouts.admin import fleets, kept

__all__ = ["fleets", "kept"]
