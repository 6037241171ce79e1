"""URL and token of the platform: of arguments, the environment, or the user's profile.

`rolldeck login` stores the profile.
"""

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from rolldeck.errors import InvalidRequestError, RolldeckError

logger = logging.getLogger("rolldeck")

DEFAULT_URL: Final = "http://127.0.0.1:8000"


class InvalidProfileError(RolldeckError):
    """The profile cannot be read; the message names its file."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Sign-in of one platform."""

    url: str
    token: str


def profile_path() -> Path:
    """Return the file of the profile, in the user's configuration folder."""
    import click

    return Path(click.get_app_dir("rolldeck")) / "profile.toml"


def read_profile() -> Profile | None:
    """Return the stored profile; None without one.

    Raises:
        InvalidProfileError: If the file is damaged or cannot be read.
    """
    import tomllib  # not imported where the environment has URL and token

    path = profile_path()
    try:
        stored = tomllib.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise _broken(path, " ".join(str(error).split())) from error
    values = stored.get("url"), stored.get("token")
    if not all(isinstance(value, str) and value for value in values):
        raise _broken(path, "url or token is missing")
    return Profile(str(values[0]), str(values[1]))


def store_profile(profile: Profile) -> Path:
    """Store the profile in a file that only its user can read, and return its path."""
    path = profile_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    # A basic string of TOML has the escapes of JSON.
    text = f"url = {json.dumps(profile.url)}\ntoken = {json.dumps(profile.token)}\n"
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    part.replace(path)
    return path


def _broken(path: Path, problem: str) -> InvalidProfileError:
    detail = f"{path}: {problem}; run `rolldeck login` again, or delete the file"
    return InvalidProfileError(status=0, code="invalid_profile", detail=detail)


def url_and_token(url: str | None, token: str | None) -> tuple[str, str | None]:
    """Return URL and token; ROLLDECK_URL and ROLLDECK_TOKEN win over the profile.

    A token is for one platform: it is not sent to others, such as a stock Atropos server.

    Raises:
        InvalidProfileError: If the profile is needed and damaged.
        InvalidRequestError: If a URL is invalid.
    """
    usual, usual_token = os.environ.get("ROLLDECK_URL"), os.environ.get("ROLLDECK_TOKEN")
    if url is not None and token is not None:
        return url, token
    given, token = url, token or usual_token
    profile = None if (url is not None or usual) and token else read_profile()
    if url is None:
        url = usual or (profile.url if profile else DEFAULT_URL)
    if token is usual_token and token and given and usual and _origin(given) != _origin(usual):
        logger.warning("ROLLDECK_TOKEN is not sent to %s, because ROLLDECK_URL is %s", url, usual)
        return url, None
    if not token and profile and _origin(url) == _origin(profile.url):
        token = profile.token
    return url, token


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = parts_of(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}[parts.scheme]


def parts_of(url: str) -> SplitResult:
    """Return the parts of a URL of a server.

    Raises:
        InvalidRequestError: If it has no scheme or no host.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0:
            return parts
    except ValueError:
        pass
    example = f"http://{url.rpartition('://')[2]}" if url else "http://127.0.0.1:8000"
    raise InvalidRequestError(
        status=0,
        code="invalid_url",
        detail=f"{url!r} is not a valid server URL; use the form {example}",
    )
