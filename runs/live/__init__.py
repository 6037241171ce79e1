"""Notify pages, waiting requests and rollout handlers of changes."""

from runs.live.announcements import NO_RUN, announce
from runs.live.parts import (
    register_deck_part,
    register_outlook,
    register_own_part,
    register_part,
    register_series,
)

__all__ = [
    "NO_RUN",
    "announce",
    "register_deck_part",
    "register_outlook",
    "register_own_part",
    "register_part",
    "register_series",
]
