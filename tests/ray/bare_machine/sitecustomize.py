"""Make this interpreter one of a machine that does not have our code.

Drivers and nodes share a disk here, and Ray tells its workers where the driver has its modules.
What came over in a `runtime_env` is found all the same.
"""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder

OURS = {"rollouts", "runs", "rolldeck", "buffer", "config", "frontend"}


class OnlyWhatWasSent(MetaPathFinder):
    """Finds our packages in the folders that Ray unpacks, and nowhere else."""

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname not in OURS:
            return None
        sent = [folder for folder in sys.path if "runtime_resources" in folder]
        found = PathFinder.find_spec(fullname, sent)
        if found is None:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return found


sys.meta_path.insert(0, OnlyWhatWasSent())
