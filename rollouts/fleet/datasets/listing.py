"""Names of the data sets on this machine."""

from pathlib import Path
from typing import Final

from rollouts.fleet.datasets.rows import SUFFIXES
from rollouts.tasks.rules.dataset_config import NAME

MOST_LISTED: Final = 200


def listed(root: str) -> list[str]:
    """Return the first files and folders of the folder of data sets, by name.

    Args:
        root: The folder; empty if there is none.
    """
    try:
        entries = sorted(Path(root).iterdir()) if root else []
    except OSError:
        return []
    usable = (one.name for one in entries if one.suffix in SUFFIXES or one.is_dir())
    return [name for name in usable if NAME.fullmatch(name)][:MOST_LISTED]
