"""Check of an installation from wheels: every required package, and the equal client."""

import re
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final

from rolldeck_server import SOURCE

NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
DISTRIBUTION: Final = "rolldeck-server"


def problem_of_installation() -> str:
    """Return the problem of a half-finished installation with its remedy; empty if there is none.

    Requirements with a marker, such as those of extras, are not checked. A checkout has none.
    """
    if (SOURCE / "pyproject.toml").is_file():
        return ""
    plain = [text for text in requires(DISTRIBUTION) or [] if ";" not in text]
    names = [match[0] for text in plain if (match := NAME.match(text))]
    missing = [name for name in names if not _version_of(name)]
    own, client = version(DISTRIBUTION), _version_of("rolldeck")
    remedy = f"finish the installation: pip install 'rolldeck[server]=={own}'"
    if missing:
        return f"the installation lacks {', '.join(missing)}; {remedy}"
    if client != own:
        return f"rolldeck is {client}, and {DISTRIBUTION} is {own}; {remedy}"
    return ""


def _version_of(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
