"""Values of a launch, completed with the defaults of its project."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from runs.config.rules.run_config import merged
from runs.projects.models import Project
from runs.projects.queries import project_for_runs


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchValues:
    """Project, preset, configuration and tags of a launch."""

    project: Project | None
    preset: str
    config: dict[str, Any]
    tags: Iterable[str]


def launch_values(
    *,
    project: str,
    uses_defaults: bool,
    preset: str | None,
    config: dict[str, Any],
    tags: Iterable[str] | None = None,
    is_configured: bool = True,
) -> LaunchValues:
    """Return the values of a launch, completed with the defaults of its project.

    Args:
        project: Name of the project; empty for none.
        uses_defaults: Whether the project's defaults apply.
        preset: Preset of the launch; None for the project's.
        config: Fields of the launch, merged over those of the project.
        tags: Tags of the launch; None for the project's.
        is_configured: Whether the run has a configuration; outside runs have none.

    Raises:
        UnknownProject: If there is no such project.
        ProjectArchived: If the project is archived.
    """
    found = project_for_runs(project) if project else None
    if found is None or not uses_defaults:
        return LaunchValues(project=found, preset=preset or "", config=config, tags=tags or ())
    own_tags = found.tags if tags is None else tags
    if not is_configured:
        return LaunchValues(project=found, preset=preset or "", config=config, tags=own_tags)
    return LaunchValues(
        project=found,
        preset=found.preset if preset is None else preset,
        config=merged(found.config, config),
        tags=own_tags,
    )
