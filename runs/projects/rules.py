"""Names and errors of projects."""

import re
from typing import Final

from web.rules.errors import Conflict, Invalid, InvalidField, NotFound

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,80}")
PROJECT_UID: Final = re.compile(r"project_[0-9a-f]{24}")
"""Form of the immutable id of a project; no name has it."""


class ProjectNotFound(NotFound):
    """There is no project with this name or id."""


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


def is_project_uid(address: str) -> bool:
    """Return whether an address is the immutable id of a project."""
    return PROJECT_UID.fullmatch(address) is not None


def check_name(name: str) -> None:
    """Check that a project may have this name.

    Raises:
        InvalidProjectName: If it cannot be used.
    """
    if not _NAME.fullmatch(name):
        raise InvalidProjectName("must be 1 to 80 letters, digits, - or _")
    if is_project_uid(name):
        raise InvalidProjectName(
            "must not have the form of a project's id: project_ and 24 hexadecimal digits"
        )
