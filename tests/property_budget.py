"""Number of examples of property tests, by profile.

The profile ``quick`` generates a fourth of them. ``make test ARGS="--hypothesis-profile thorough"``
generates all.
"""

from typing import Final

from hypothesis import settings

DIVISORS: Final = {"quick": 4, "thorough": 1}
EXAMPLES: Final = 100
"""Examples of a test that does not state its number, in the profile ``thorough``."""


def load_profile() -> None:
    """Register both profiles and load the quick one."""
    for name, divisor in DIVISORS.items():
        # The duration of an example depends on the load of the machine.
        settings.register_profile(name, deadline=None, max_examples=EXAMPLES // divisor)
    settings.load_profile("quick")


def examples(count: int) -> int:
    """Return the number of examples under the current profile for a test that needs `count`."""
    return count // DIVISORS[settings.get_current_profile_name()]
