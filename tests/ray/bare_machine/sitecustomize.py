"""Simulate a machine without this code.

Drivers and nodes share a disk here, and Ray tells its workers the driver's module paths. Code
from a `runtime_env` is still found.
"""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder

OURS = {"rollouts", "runs", "rolldeck", "buffer", "config", "frontend"}


class OnlyWhatWasSent(MetaPathFinder):
    """Finder for this project's packages that only searches the folders unpacked by Ray."""

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname not in OURS:
            return None
        sent = [folder for folder in sys.path if "runtime_resources" in folder]
        module_spec = PathFinder.find_spec(fullname, sent)
        if module_spec is None:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return module_spec


sys.meta_path.insert(0, OnlyWhatWasSent())
