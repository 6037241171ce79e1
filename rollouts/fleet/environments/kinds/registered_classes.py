"""Environment classes registered by an administrator: ``module:<path>:<Class>``.

Importing a module runs its code, so a run's configuration alone cannot select one. The spec must be
in ``ROLLDECK_ENVIRONMENTS`` of the machine that imports it.
"""

import importlib
from collections.abc import Mapping
from typing import Any

from rollouts.fleet.environments.contract import Environment, UnknownEnvironment, require_registered


def make(name: str, kwargs: Mapping[str, Any]) -> Environment:
    """Return an instance of the class `name`, given as ``<import.path>:<Class>``.

    Raises:
        UnknownEnvironment: If it is not registered on this machine, or does not exist.
    """
    spec = f"module:{name}"
    require_registered(spec)
    path, _, class_name = name.partition(":")
    try:
        found = getattr(importlib.import_module(path), class_name)
    except (ImportError, AttributeError) as error:
        raise UnknownEnvironment(f"{spec} is registered, but {error}") from error
    environment: Environment = found(**kwargs)
    return environment
