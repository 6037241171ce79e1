"""Make environments of classes that an administrator registered: ``module:<path>:<Class>``.

Importing a module runs it, so a run's configuration alone must never name one: the spec has to
be in ``ROLLDECK_ENVIRONMENTS`` on the very machine that would import it.
"""

import importlib
from collections.abc import Mapping
from typing import Any

from rollouts.fleet.environments.loader import Environment, UnknownEnvironment, require_registered


def make(name: str, kwargs: Mapping[str, Any]) -> Environment:
    """Return an instance of the class that `name`, ``<import.path>:<Class>``, names.

    Raises:
        UnknownEnvironment: If it is not registered on this machine, or there is no such class.
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
