"""Environments included in Rolldeck: ``rolldeck:<id>``."""

from collections.abc import Mapping
from typing import Any

from rollouts.fleet.environments.contract import Environment, UnknownEnvironment


def make(name: str, kwargs: Mapping[str, Any]) -> Environment:
    """Return the environment with the id `name`.

    Raises:
        UnknownEnvironment: If it does not exist.
    """
    from rollouts.fleet.environments.kinds.catch import Catch
    from rollouts.fleet.environments.kinds.recall import Recall

    known: dict[str, type[Environment]] = {"catch-v0": Catch, "recall-v0": Recall}
    if name not in known:
        raise UnknownEnvironment(f"rolldeck has no environment {name!r}; known: {', '.join(known)}")
    return known[name](**kwargs)
