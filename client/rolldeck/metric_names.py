"""Names of the metrics of environments."""

import re
from typing import Final

ENVIRONMENTS: Final = "env/"
"""Beginning of the names of the metrics of environments."""
UNREGISTERED: Final = "unregistered"
"""Environment of the groups that name none."""
NOT_IN_NAMES: Final = re.compile(r"[^\w./ -]")
"""A character that no name of a metric has."""


def environment_prefix(environment: str) -> str:
    """Return the beginning of the names of an environment's metrics, ``env/<name>/``."""
    return f"{ENVIRONMENTS}{NOT_IN_NAMES.sub('_', environment) or UNREGISTERED}/"
