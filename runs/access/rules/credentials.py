"""Extract the token from an Authorization header."""

import base64


class MalformedCredentials(ValueError):
    """The header is neither a bearer token nor Basic with one."""


def token_in(header: str) -> str | None:
    """Return the token in an Authorization header, or None without one.

    Raises:
        MalformedCredentials: If the Basic credentials cannot be decoded.
    """
    kind, _, value = header.strip().partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() != "basic":
        return None
    try:
        pair = base64.b64decode(value.strip(), validate=True).decode()
    except ValueError as error:  # invalid base64, ASCII or UTF-8
        raise MalformedCredentials("the Basic credentials are not base64 of user:token") from error
    _, colon, password = pair.partition(":")
    if not colon:
        raise MalformedCredentials("the Basic credentials have no colon")
    return password
