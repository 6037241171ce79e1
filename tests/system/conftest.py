"""Wheels and an installation of them, which several files use."""

from pathlib import Path

import pytest

from tests.server import ROOT
from tests.wheels import TORCH, Installation, build, empty_installation


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both wheels of this version."""
    return build(ROOT, tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="session")
def installed_server(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """An environment with `rolldeck[server]` from the wheels; tests do not change it."""
    installation = empty_installation(tmp_path_factory.mktemp("installed") / "venv")
    installation.install("rolldeck[server]", TORCH, wheels=wheels)
    return installation
