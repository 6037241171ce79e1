"""Log lines of sign-ins, failed sign-ins and sign-outs, with account, address and path.

Django's signals cover every way to sign in: the dashboard, the admin and one-time links.
"""

import json
import logging
from typing import Any, Final

from django.http import HttpRequest

from runs.access.models import User
from web.http.request_ids import CURRENT

logger = logging.getLogger(__name__)

LONGEST_NAME: Final = 150
"""Characters of an account name in a line."""


def log_sign_in(request: HttpRequest | None, user: User, **_: Any) -> None:
    """Log the beginning of a session."""
    _log(logging.INFO, "sign_in_succeeded", user.get_username(), request)


def log_failure(credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    """Log a wrong name or password, without the password."""
    _log(logging.WARNING, "sign_in_failed", str(credentials.get("username", "")), request)


def log_sign_out(request: HttpRequest | None, user: User | None, **_: Any) -> None:
    """Log the end of a session by its person."""
    if user is not None:
        _log(logging.INFO, "sign_out_succeeded", user.get_username(), request)


def _log(level: int, event: str, account: str, request: HttpRequest | None) -> None:
    facts = {
        "account": account[:LONGEST_NAME],
        "address": request.META.get("REMOTE_ADDR", "") if request else "",
        "path": request.path[:LONGEST_NAME] if request else "",
        "request_id": CURRENT.get(),
    }
    # ASCII only: texts of clients cannot forge lines or control terminals.
    logger.log(level, "%s: %s", event, json.dumps(facts))
