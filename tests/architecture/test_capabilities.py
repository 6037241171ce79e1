"""File names inside capabilities; import-linter checks the import order between them."""

from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
NAMES: Final = frozenset(
    {"__init__", "__pycache__", "urls", "api", "admin", "jobs"}
    | {"services", "queries", "models", "schemas", "rules"}
)
NOT_CAPABILITIES: Final = {"migrations", "management", "static", "templates", "fleet"}


@pytest.mark.parametrize("app", ["runs", "buffer", "rollouts"])
def test_a_capability_contains_only_the_known_names(app: str) -> None:
    capabilities = [
        folder for folder in (ROOT / app).iterdir() if (folder / "__init__.py").exists()
    ]
    unknown = {
        str(path.relative_to(ROOT))
        for capability in capabilities
        if capability.name not in NOT_CAPABILITIES
        for path in capability.iterdir()
        if path.stem not in NAMES
    }

    assert len(capabilities) > len(NOT_CAPABILITIES)
    assert unknown == set()


@pytest.mark.parametrize("package", ["runs", "buffer", "rollouts", "platform/web"])
def test_packages_re_export_nothing(package: str) -> None:
    files = (ROOT / package).rglob("__init__.py")

    assert [str(file.relative_to(ROOT)) for file in files if file.stat().st_size] == []
