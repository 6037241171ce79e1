"""Build of `rolldeck`: its extras require the server of the equal version."""

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class MetadataHook(MetadataHookInterface):
    """Completes the requirements of `rolldeck-server`, whose version is that of this build."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the version to each."""
        metadata["optional-dependencies"] = {
            extra: [
                f"{name}=={metadata['version']}" if name.startswith("rolldeck-server") else name
                for name in names
            ]
            for extra, names in metadata["optional-dependencies"].items()
        }
