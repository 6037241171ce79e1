"""Session and API key of a request."""

import re
import secrets
from typing import Final

from starlette.requests import Request

from rolldeck.captures import SESSION_PATTERN
from rollouts.fleet.capture.refusals import Refusal

SESSION_HEADER: Final = "X-Rolldeck-Session"


def admitted_session(request: Request, api_key: str) -> str:
    """Return the session of a request, from its path or its header.

    Args:
        request: Request of an agent.
        api_key: API key that it must contain; empty for none.

    Raises:
        Refusal: If the key is invalid, or the session is missing, invalid or ambiguous.
    """
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    token = request.headers.get("x-api-key") or bearer
    if api_key and not secrets.compare_digest(token.encode(), api_key.encode()):
        raise Refusal("the API key is invalid", status=401)
    in_path, in_header = request.path_params.get("session"), request.headers.get(SESSION_HEADER)
    if in_path and in_header and in_path != in_header:
        raise Refusal(
            f"the path names session {in_path!r}, {SESSION_HEADER} names {in_header!r}", status=400
        )
    session = in_path or in_header
    if session is None:
        raise Refusal(
            f"no session: use the base URL /capture/<session>, or send {SESSION_HEADER}", status=400
        )
    if not re.fullmatch(SESSION_PATTERN, session):
        raise Refusal(
            f"session {session[:200]!r}: must have 1 to 120 letters, digits, - or _", status=404
        )
    return str(session)
