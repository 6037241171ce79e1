"""Read projects."""

from runs.projects.models import Project
from runs.projects.rules import ProjectArchived, ProjectNotFound, UnknownProject
from runs.projects.schemas import ProjectDefaults, ProjectList, ProjectRow
from web.rules.pages import PageRequest


def project_page(page: PageRequest[str], *, is_archived: bool) -> ProjectList:
    """Return one page of the current or of the archived projects, by name."""
    found = Project.objects.counted().filter(archived_at__isnull=not is_archived)
    if page.after is not None:
        found = found.filter(name__gt=page.after)
    rows, cursor = page.cut(found.order_by("name")[: page.limit + 1], lambda row: row.name)
    return ProjectList(results=[_row(project) for project in rows], next=cursor)


def project_row(address: str) -> ProjectRow:
    """Return a project for the API.

    Raises:
        ProjectNotFound: If there is no such project.
    """
    return _row(Project.objects.counted().at(address))


def project_for_runs(address: str, *, is_locked: bool = False) -> Project:
    """Return a project to which a run may be added, locked if a transaction adds one.

    Raises:
        UnknownProject: If there is no such project.
        ProjectArchived: If the project is archived.
    """
    rows = Project.objects.select_for_update(no_key=True) if is_locked else Project.objects.all()
    try:
        project = rows.at(address)
    except ProjectNotFound as error:
        raise UnknownProject(str(error)) from error
    if project.archived_at is not None:
        raise ProjectArchived(f"project {project.name!r} is archived; restore it to add runs")
    return project


def _row(project: Project) -> ProjectRow:
    return ProjectRow(
        uid=project.uid,
        name=project.name,
        title=project.title,
        description=project.description,
        defaults=ProjectDefaults(preset=project.preset, config=project.config, tags=project.tags),
        runs=project.run_count,  # type: ignore[attr-defined] # an annotation
        created_at=project.created_at,
        created_by=project.created_by,
        changed_at=project.changed_at,
        archived_at=project.archived_at,
    )
