"""Configuration of the failure budget of a run."""

from typing import Annotated, Final, Literal

from msgspec import Struct

from runs.config.rules.config_field import described as _field

Cause = Literal["inference", "environment", "tool", "reward"]
CAUSES: Final[tuple[Cause, ...]] = ("inference", "environment", "tool", "reward")


class FailureLimit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Failures of one cause that a run accepts; beyond both numbers, it pauses."""

    share: Annotated[float, _field("Share", "Failed share of the newest rollouts.", gt=0, le=1)] = (
        0.5
    )
    failures: Annotated[
        int,
        _field("Failures", "Failed rollouts in the window; 0 to never pause.", ge=0, le=1_000_000),
    ] = 50
    window_seconds: Annotated[
        float, _field("Window", "Time over which failures count.", unit="s", ge=10, le=3600)
    ] = 120.0


class FailureBudget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits by cause: an outage pauses the run, a lesson that fails alone stops alone."""

    inference: FailureLimit = FailureLimit()
    environment: FailureLimit = FailureLimit()
    tool: FailureLimit = FailureLimit()
    reward: FailureLimit = FailureLimit()

    def limit_of(self, cause: Cause) -> FailureLimit:
        """Return the limit of a cause."""
        limit: FailureLimit = getattr(self, cause)
        return limit
