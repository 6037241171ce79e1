"""Simulated fleets: ``simulated:<profile>`` as the environment of a run.

Such a run is launched, controlled and displayed like any other; its workers compute synthetic data.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from runs.config.rules.run_config import InvalidRunConfig


class Simulation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Simulated work; ``environment.kwargs`` of a simulated run."""

    step_seconds: Annotated[float, Meta(gt=0, le=3600)] = 0.05
    """Mean time between two observations, including inference."""
    spread: Annotated[float, Meta(ge=0, le=2)] = 0.3
    """Standard deviation of times and lengths, relative to their means."""
    episode_length: Annotated[int, Meta(ge=1, le=1_000_000)] = 200
    """Mean env steps of an episode."""
    failures_per_hour: Annotated[float, Meta(ge=0, le=100_000)] = 0.0
    """Mean failures per worker and hour."""
    fragments_per_second: Annotated[float, Meta(ge=0, le=1000)] = 10.0
    """Maximum rate of real fragments of the whole fleet."""


SIMULATED_PREFIX: Final = "simulated:"
PROFILES: Final = {
    "simulated:steady": Simulation(),
    "simulated:failing": Simulation(failures_per_hour=6.0),
    "simulated:slow": Simulation(step_seconds=2.0, fragments_per_second=1.0),
}


def simulation_of(spec: str, kwargs: Mapping[str, Any]) -> Simulation | None:
    """Return the simulation of `spec`, or None for a real environment.

    Raises:
        InvalidRunConfig: If `kwargs` contain an unknown or invalid parameter.
    """
    profile = PROFILES.get(spec)
    if profile is None:
        return None
    try:
        return msgspec.convert({**msgspec.to_builtins(profile), **kwargs}, Simulation)
    except msgspec.ValidationError as error:
        raise InvalidRunConfig("environment.kwargs", str(error)) from error
