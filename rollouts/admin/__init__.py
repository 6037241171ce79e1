"""Show fleets, lessons, metrics, and what people keep of them."""

from rollouts.admin import fleets, kept

__all__ = ["fleets", "kept"]
