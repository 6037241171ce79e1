"""The packages of lessons with a data set, from an environment of their own."""

import os
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / ".partners" / "prompts"
PYTHON: Final = FOLDER / "bin" / "python"
PACKAGES: Final = next((FOLDER / "lib").glob("python3*/site-packages"), FOLDER)


@pytest.fixture
def prompt_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the packages importable in this process and its children, after those of ours."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(PACKAGES)])
    ours = next(path for path in sys.path if path.endswith("site-packages"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), ours, str(PACKAGES)]))
