"""Registry of configuration checks of the apps above this one.

The apps register in ``AppConfig.ready``.
"""

from collections.abc import Callable

from runs.config.rules.run_config import RunConfig

_checks: list[Callable[[RunConfig], object]] = []


def register(check: Callable[[RunConfig], object]) -> None:
    """Call ``check(config)`` for each new configuration; it may raise `InvalidRunConfig`."""
    if check not in _checks:
        _checks.append(check)


def check_all(config: RunConfig) -> None:
    """Run every registered check on a configuration.

    Raises:
        InvalidRunConfig: If a check fails.
    """
    for check in _checks:
        check(config)
