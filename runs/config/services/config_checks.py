"""Registry of configuration checks of the apps above this one.

The apps register in ``AppConfig.ready``.
"""

from collections.abc import Callable
from functools import partial

from runs.config.rules.run_config import RunConfig, combined, errors_of

_checks: list[Callable[[RunConfig], object]] = []


def register(check: Callable[[RunConfig], object]) -> None:
    """Call ``check(config)`` for each new configuration; it may raise `InvalidRunConfig`."""
    if check not in _checks:
        _checks.append(check)


def check_all(config: RunConfig) -> None:
    """Run every registered check on a configuration.

    Raises:
        InvalidRunConfig: If a check fails; `others` are the further errors.
    """
    errors = errors_of(*(partial(check, config) for check in _checks))
    if errors:
        raise combined(errors)
