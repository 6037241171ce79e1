"""Names and errors of projects."""

import re
from typing import Final

from web.rules.errors import Conflict, Invalid, InvalidField, NotFound

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,80}")


class ProjectNotFound(NotFound):
    """There is no project with this name."""


class UnknownProject(Invalid):
    """The request names a project that does not exist."""

    field = "project"


class InvalidProjectName(Invalid):
    """The name cannot be part of a URL."""

    field = "name"


class InvalidDefaults(InvalidField):
    """A default of a project is invalid; `field` is its path below `defaults`."""

    title = "Invalid defaults"
    inside = "defaults"


class ProjectExists(Conflict):
    """A project has this name, in upper or lower case."""

    code = "project_exists"
    title = "Name taken"
    field = "name"


class ProjectArchived(Conflict):
    """The project is archived, so no run can be added to it."""

    code = "project_archived"
    title = "The project is archived"
    field = "project"


class ProjectInUse(Conflict):
    """The project has runs that are not archived."""

    code = "project_in_use"
    title = "The project has runs"


def check_name(name: str) -> None:
    """Check that a project may have this name.

    Raises:
        InvalidProjectName: If it cannot be used.
    """
    if not _NAME.fullmatch(name):
        raise InvalidProjectName("must be 1 to 80 letters, digits, - or _")
