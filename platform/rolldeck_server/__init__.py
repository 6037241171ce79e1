"""The platform as an installed package: the repository's tree lies in it.

Its packages (`config`, `runs`, …) are importable only after `add_source`, so that an installation
adds a single name to an environment. In a checkout, this package lies in the tree instead.

`RolloutManager` samples and evaluates lessons without a platform; importing it calls `add_source`.
"""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rollouts.fleet.groups.rollout_manager import RolloutManager as RolloutManager

_HERE: Final = Path(__file__).resolve().parent
SOURCE: Final = _HERE if (_HERE / "manage.py").is_file() else _HERE.parents[1]
"""Folder with `manage.py`, `platform/`, `runs/`, `buffer/`, `rollouts/` and `frontend/`."""


def source_folders() -> list[str]:
    """Return the folders from which the platform's packages are imported."""
    return [str(SOURCE), str(SOURCE / "platform")]


def add_source() -> None:
    """Make the platform's packages importable in this process and in the processes it starts.

    They come first: a module `config` of another package, or of the current folder, would hide the
    platform's.
    """
    folders = source_folders()
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    others = [folder for folder in given if folder and folder not in folders]
    sys.path[:] = [*folders, *(folder for folder in sys.path if folder not in folders)]
    os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *others])


def __getattr__(name: str) -> Any:
    if name != "RolloutManager":
        raise AttributeError(f"module 'rolldeck_server' has no attribute {name!r}")
    add_source()
    return import_module("rollouts.fleet.groups.rollout_manager").RolloutManager
