"""Schema of error responses (RFC 9457)."""

from msgspec import Struct


class FieldProblem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An invalid field of a request, with its position in the text if known."""

    field: str
    message: str
    start: int | None = None
    end: int | None = None


class Problem(Struct, frozen=True, kw_only=True):
    """An error response: problem details (RFC 9457) with a code from one table."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[FieldProblem] = []
