"""Page of all error codes, to which the `type` of a problem leads."""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from web.rules.errors import ApiError


class ErrorCode(NamedTuple):
    """A code with its status and titles."""

    status: int
    code: str
    titles: str


def error_codes() -> list[ErrorCode]:
    """Return every code of the loaded modules, by status."""
    titles: dict[tuple[int, str], set[str]] = defaultdict(set)
    for kind in _kinds(ApiError):
        if hasattr(kind, "code"):
            titles[kind.status, kind.code].add(kind.title)
    return [ErrorCode(*key, "; ".join(sorted(titles[key]))) for key in sorted(titles)]


def page(request: HttpRequest) -> HttpResponse:
    """Return the page of all codes."""
    return render(request, "error_codes.html", {"codes": error_codes()})


def _kinds(kind: type[ApiError]) -> Iterator[type[ApiError]]:
    for one in kind.__subclasses__():
        yield one
        yield from _kinds(one)
