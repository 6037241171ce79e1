"""Build of `rolldeck-server`: the tree inside one package, with the dashboard and the guide."""

from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

TREE: Final = (
    "manage.py",
    "platform/config",
    "platform/web",
    "runs",
    "buffer",
    "rollouts",
    "frontend/*.py",
    "frontend/templates",
    "frontend/dist",
    "examples",
    "build/docs.zip",
)
DASHBOARD: Final = "frontend/dist"
MAX_DASHBOARD_BYTES: Final = 8_000_000
GUIDE: Final = "build/docs.zip"
MAX_GUIDE_BYTES: Final = 2_500_000


class BuildHook(BuildHookInterface[Any]):
    """Lays the tree into the wheel; an editable installation uses the checkout itself."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files of the tree, which are below another folder in the wheel.

        Raises:
            SystemExit: If the dashboard or the guide is not built, or too large.
        """
        if version == "editable" or self.target_name != "wheel":
            return
        root = Path(self.root)
        check_dashboard(root / DASHBOARD)
        check_guide(root / GUIDE)
        build_data["force_include"] |= {
            str(path): f"rolldeck_server/{path.relative_to(root)}"
            for pattern in TREE
            for path in root.glob(pattern)
        }


class MetadataHook(MetadataHookInterface):
    """Requires the client of the equal version."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Complete the requirement, whose version is that of this build."""
        metadata["dependencies"] = [
            f"rolldeck=={metadata['version']}" if name == "rolldeck" else name
            for name in metadata["dependencies"]
        ]


def check_dashboard(folder: Path) -> None:
    """Check that the dashboard is built.

    Raises:
        SystemExit: If it is not, or is larger than `MAX_DASHBOARD_BYTES`.
    """
    if not (folder / "index.html").is_file():
        raise SystemExit(
            f"{folder} has no index.html: build the dashboard first, with "
            "`npm ci && npm run build` in frontend/"
        )
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    if size > MAX_DASHBOARD_BYTES:
        raise SystemExit(
            f"the dashboard in {folder} has {size:,} bytes, {MAX_DASHBOARD_BYTES:,} allowed"
        )


def check_guide(archive: Path) -> None:
    """Check that the documentation is built.

    Raises:
        SystemExit: If it is not, or is larger than `MAX_GUIDE_BYTES`.
    """
    if not archive.is_file():
        raise SystemExit(f"{archive} does not exist: build the guide first, with `make docs`")
    if (size := archive.stat().st_size) > MAX_GUIDE_BYTES:
        raise SystemExit(f"{archive} has {size:,} bytes, {MAX_GUIDE_BYTES:,} allowed")
