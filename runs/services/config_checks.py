"""Let apps above this one check what a configuration says about their parts.

They register in ``AppConfig.ready``.
"""

from collections.abc import Callable

from runs.core.run_config import RunConfig

_checks: list[Callable[[RunConfig], object]] = []


def register(check: Callable[[RunConfig], object]) -> None:
    """Call ``check(config)`` for each new configuration; it raises an `InvalidRunConfig`."""
    if check not in _checks:
        _checks.append(check)


def check_all(config: RunConfig) -> None:
    """Have every registered check look at the configuration.

    Raises:
        InvalidRunConfig: If one refuses it.
    """
    for check in _checks:
        check(config)
