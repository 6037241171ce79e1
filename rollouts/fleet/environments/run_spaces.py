"""Spaces of a run's environment, for trainers."""

from collections.abc import Mapping
from typing import Any

import msgspec

from rollouts.fleet.environments import loader
from rollouts.fleet.policies.spaces import Space
from runs.config.rules.sections import EnvironmentConfig


def spaces_of(config: Mapping[str, Any]) -> tuple[Space, Space]:
    """Return the observation and action spaces of a run's environment, with its wrappers.

    The environment is built in this process, so its spec and wrappers must be registered here.
    `config` is the configuration of the run, as the registration of a trainer returns it.

    Raises:
        UnknownEnvironment: If the spec is not registered on this machine.
        ExtensionFailed: If a wrapper or callback is not.
    """
    one = msgspec.convert(config["environment"], EnvironmentConfig)
    loader.import_registered_modules()
    environment = loader.make(one.spec, one.kwargs, wrappers=one.wrappers, callbacks=one.callbacks)
    try:
        return loader.describe(environment)
    finally:
        environment.close()
