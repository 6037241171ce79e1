"""Environments registered with Gymnasium: ``gymnasium:<id>``."""

from collections.abc import Mapping
from typing import Any

from rollouts.fleet.environments.contract import Environment, require_registered


def make(name: str, kwargs: Mapping[str, Any]) -> Environment:
    """Return the environment with the id `name`.

    Raises:
        UnknownEnvironment: If the id names a module, which Gymnasium would import, and the spec is
            not registered by an administrator.
    """
    import gymnasium

    if ":" in name:
        require_registered(f"gymnasium:{name}")
    # The checker doubles the cost of a step; specs are checked when a run is created.
    environment: Environment = gymnasium.make(name, disable_env_checker=True, **kwargs)
    return environment
