"""Create, change and delete projects, and apply their defaults to launches."""

from datetime import datetime
from typing import Any, Final

from django.db import IntegrityError, transaction

from runs.config.queries import preset_name
from runs.config.rules.preset_rules import secret_in
from runs.config.rules.run_config import InvalidRunConfig
from runs.config.services import UnknownPreset, configured
from runs.events.services import ACTOR_LENGTH, record_event
from runs.projects.models import Project
from runs.projects.rules import InvalidDefaults, ProjectExists, ProjectInUse, check_name
from runs.saved.rules import differences
from web.live.announcements import announce
from web.rules import texts

_AUDITED: Final = ("name", "title", "description", "preset", "config", "tags")


@transaction.atomic
def create_project(
    *,
    name: str,
    title: str = "",
    description: str = "",
    defaults: dict[str, Any] | None = None,
    actor: str,
    reason: str = "",
    now: datetime,
) -> Project:
    """Create a project; `defaults` may have `preset`, `config` and `tags`.

    Raises:
        InvalidProjectName: If the name cannot be used.
        InvalidDefaults: If a default is invalid; `field` is its path.
        ProjectExists: If a project has this name.
    """
    check_name(name)
    project = Project(
        name=name,
        title=title.strip(),
        description=description.strip(),
        created_at=now,
        created_by=actor[:ACTOR_LENGTH],
        **_checked(Project(), defaults or {}),
    )
    _store(project, now=now)
    _record(project, "created", actor=actor, reason=reason, now=now)
    return project


@transaction.atomic
def change_project(
    *, address: str, changes: dict[str, Any], actor: str, reason: str = "", now: datetime
) -> Project:
    """Change the `name`, `title`, `description`, `defaults` or `archived` of a project.

    Its runs stay in it, and their configurations do not change.

    Raises:
        ProjectNotFound: If there is no such project.
        InvalidProjectName: If the new name cannot be used.
        InvalidDefaults: If a default is invalid; `field` is its path.
        ProjectExists: If another project has the new name.
    """
    project = Project.objects.select_for_update().at(address)
    before = _audited(project)
    columns = _checked(project, changes.get("defaults", {}))
    columns |= {
        field: changes[field] for field in ("name", "title", "description") & changes.keys()
    }
    if "name" in columns:
        check_name(columns["name"])
    if "archived" in changes:
        columns["archived_at"] = (project.archived_at or now) if changes["archived"] else None
    for column, value in columns.items():
        setattr(project, column, value)
    found = differences(before, _audited(project))
    if not found:
        return project
    _store(project, now=now)
    if "name" in found:
        for run_id in project.runs.filter(archived_at=None).values_list("pk", flat=True):
            announce(run_id, "run")
    _record(project, "changed", details=found, actor=actor, reason=reason, now=now)
    return project


@transaction.atomic
def delete_project(*, address: str, actor: str, reason: str = "", now: datetime) -> None:
    """Delete a project without current runs; its archived runs stay, without a project.

    Raises:
        ProjectNotFound: If there is no such project.
        ProjectInUse: If it has runs that are not archived.
    """
    project = Project.objects.select_for_update().at(address)
    current = project.runs.filter(archived_at=None).count()
    if current:
        raise ProjectInUse(
            f"{current:,} {'run is' if current == 1 else 'runs are'} in {project.name}: move them"
            " to another project, or archive the project"
        )
    details = {"archived_runs": project.runs.count()}
    _record(project, "deleted", details=details, actor=actor, reason=reason, now=now)
    project.delete()


def _checked(project: Project, defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of new defaults; those of a project are checked with them.

    A default preset is used by every operator, so it must not be private.
    """
    columns = dict(defaults)
    if "tags" in columns:
        try:
            columns["tags"] = texts.checked(columns["tags"])
        except texts.InvalidTag as error:
            raise InvalidDefaults("tags", str(error)) from error
    if not {"preset", "config"} & columns.keys():
        return columns
    config = columns.get("config", project.config)
    secret = secret_in(config)
    if secret is not None:
        raise InvalidDefaults(
            f"config.{secret}",
            "looks like a secret, which projects must not contain: set it at each launch",
        )
    try:
        configured(preset=columns.get("preset", project.preset), config=config)
        if "preset" in columns:
            columns["preset"] = preset_name(columns["preset"], person=None)
    except UnknownPreset as error:
        raise InvalidDefaults("preset", f"{error}, or shared") from error
    except InvalidRunConfig as error:
        path = ".".join(part for part in ("config", error.field) if part)
        raise InvalidDefaults(path, error.message) from error
    return columns


def _store(project: Project, *, now: datetime) -> None:
    project.changed_at = now
    try:
        with transaction.atomic():
            project.save()
    except IntegrityError as error:
        if "project_name_is_unique" not in str(error):
            raise
        raise ProjectExists(f"a project named {project.name!r} already exists") from error


def _audited(project: Project) -> dict[str, Any]:
    fields = {field: getattr(project, field) for field in _AUDITED}
    return fields | {"archived": project.archived_at is not None}


def _record(
    project: Project,
    verb: str,
    *,
    details: dict[str, Any] | None = None,
    actor: str,
    reason: str,
    now: datetime,
) -> None:
    fields = sorted({path.partition(".")[0] for path in details or {}}) if verb == "changed" else []
    record_event(
        run_id=None,
        kind=f"project_{verb}",
        message=f"project {project.name} {verb}{': ' if fields else ''}{', '.join(fields)}",
        details={"id": project.pk, "name": project.name, **(details or {})},
        actor=actor,
        reason=reason,
        now=now,
    )
