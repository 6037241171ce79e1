"""Read the token out of an Authorization header."""

import base64


class MalformedCredentials(ValueError):
    """The header is neither a bearer token nor Basic with one."""


def token_in(header: str) -> str | None:
    """Return the token in an Authorization header, or None when it shows none.

    Raises:
        MalformedCredentials: If it says Basic and cannot be read.
    """
    kind, _, value = header.strip().partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() != "basic":
        return None
    try:
        pair = base64.b64decode(value.strip(), validate=True).decode()
    except ValueError as error:  # no base64, no ASCII, or no UTF-8 inside
        raise MalformedCredentials("the Basic credentials are not base64 of user:token") from error
    _, colon, password = pair.partition(":")
    if not colon:
        raise MalformedCredentials("the Basic credentials have no colon")
    return password
