"""Environment wrappers that a run may name.

The web process imports no wrappers. Registered wrappers come from a setting or from installed
packages. Env processes create the wrappers and perform the final check.
"""

from collections.abc import Collection, Sequence
from typing import Final

from runs.config.rules.environment_config import WrapperConfig
from runs.config.rules.run_config import InvalidRunConfig

SETTING: Final = "ROLLDECK_ENVIRONMENT_WRAPPERS"
ENTRY_POINTS: Final = "rolldeck.environment_wrappers"
"""Group of entry points by which an installed package registers wrappers."""
FIELD: Final = "environment.wrappers"


def check(wrappers: Sequence[WrapperConfig], *, registered: Collection[str]) -> None:
    """Check that every wrapper is registered.

    Raises:
        InvalidRunConfig: If one is not; `field` is its dotted path.
    """
    for position, wrapper in enumerate(wrappers):
        if wrapper.kind not in registered:
            raise InvalidRunConfig(
                f"{FIELD}[{position}].kind",
                f"{wrapper.kind!r} is not registered: an administrator must add it to {SETTING} on "
                f"the platform and on every machine that steps environments; known: "
                f"{', '.join(sorted(registered)) or 'none'}",
            )
