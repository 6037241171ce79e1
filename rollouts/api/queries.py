"""Read what a request's query asks for."""

from rest_framework.request import Request

from runs.api import bodies


def wait_of(request: Request, *, default: float, at_most: int) -> float:
    """Return the query's `wait` in seconds.

    Raises:
        InvalidBody: If it is no number from 0 to `at_most`.
    """
    try:
        seconds = float(request.query_params.get("wait", default))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= at_most:
        raise bodies.InvalidBody("wait", f"must be a number from 0 to {at_most}")
    return seconds
