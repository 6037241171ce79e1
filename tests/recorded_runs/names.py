"""Names of the recorded runs and of what belongs to them."""

from typing import Final

LIVE: Final = "cartpole-live"
PAUSED: Final = "cartpole-paused"
FAILED: Final = "cartpole-hung"
DRAFT: Final = "cartpole-draft"
SWEEP: Final = ("cartpole-sweep-0", "cartpole-sweep-1")
LANGUAGE: Final = "shopping-lessons"
MIXED: Final = "atropos-mix"
HOSTILE: Final = "hostile-text"
ALL: Final = (LIVE, PAUSED, FAILED, DRAFT, *SWEEP, LANGUAGE, MIXED, HOSTILE)
PROJECT: Final = "poles"
