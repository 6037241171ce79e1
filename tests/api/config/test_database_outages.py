"""An outage and a process without resources yield 503 everywhere; programming errors stay 500."""

import asyncio
import errno
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
import redis
from django.contrib.sessions.exceptions import SessionInterrupted
from django.core.handlers.exception import convert_exception_to_response
from django.db import InterfaceError, OperationalError, ProgrammingError
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from psycopg_pool import PoolTimeout

from config.errors import handle
from config.outage_answers import OutageAnswers
from web.outages import is_outage

FORMS = {
    "/api/v1/runs": "application/problem+json",
    "/healthz/ready": "application/problem+json",
    "/metrics": "application/problem+json",
    "/openapi.json": "application/problem+json",
    "/status": "application/json",
    "/atropos/demo/batch": "application/json",
    "/admin/runs/run/": "text/html",
}
OUTAGES = [
    OperationalError("server closed the connection unexpectedly"),
    InterfaceError("the connection is closed"),
    psycopg.errors.AdminShutdown("terminating connection"),
    PoolTimeout("couldn't get a connection after 3.00 sec"),
    redis.ConnectionError("connection refused"),
    MemoryError("3 GiB cannot be allocated"),
    RuntimeError("can't start new thread"),
    OSError(errno.EMFILE, "Too many open files"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
]
MISTAKES = [
    ProgrammingError("no such column"),
    KeyError("x"),
    ZeroDivisionError(),
    RuntimeError("another text"),
    OSError(errno.EACCES, "Permission denied"),
]


def raising(error: Exception) -> Callable[[HttpRequest], HttpResponse]:
    def view(_request: HttpRequest) -> HttpResponse:
        raise error

    return view


def answered(path: str, view: Callable[[HttpRequest], HttpResponse]) -> HttpResponse:
    return convert_exception_to_response(view)(RequestFactory().get(path))


@pytest.mark.parametrize("error", OUTAGES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("path", FORMS)
def test_an_outage_outside_of_a_view_has_the_error_format_of_its_route(
    path: str, error: Exception
) -> None:
    answer = answered(path, raising(error))

    assert (answer.status_code, answer["Retry-After"]) == (503, "1")
    assert answer["Content-Type"].startswith(FORMS[path])
    assert str(error) not in answer.content.decode()


async def from_asgi(path: str, error: Exception, *, begins: bool = False) -> list[dict[str, Any]]:
    """Return the messages of an ASGI application that raises an error."""

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        if begins:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise error

    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "headers": []}
    await OutageAnswers(app)(scope, None, send)  # type: ignore[arg-type]
    return sent


@pytest.mark.parametrize("error", OUTAGES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("path", FORMS)
def test_an_outage_outside_of_django_has_the_error_format_of_its_route(
    path: str, error: Exception
) -> None:
    start, body = asyncio.run(from_asgi(path, error))
    headers = dict(start["headers"])

    assert (start["status"], headers[b"retry-after"]) == (503, b"1")
    assert headers[b"content-type"].decode().startswith(FORMS[path])
    assert int(headers[b"content-length"]) == len(body["body"]) > 0


def test_mistakes_and_begun_responses_are_left_to_the_server() -> None:
    for error in MISTAKES:
        with pytest.raises(type(error)):
            asyncio.run(from_asgi("/status", error))
    with pytest.raises(MemoryError):
        asyncio.run(from_asgi("/status", MemoryError(), begins=True))


@pytest.mark.parametrize("error", MISTAKES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("path", FORMS)
def test_a_programming_error_remains_status_500(path: str, error: Exception) -> None:
    answer = answered(path, raising(error))

    assert answer.status_code == 500
    assert answer["Content-Type"].startswith(FORMS[path])
    assert "Retry-After" not in answer


def test_a_session_that_cannot_be_stored_is_an_outage() -> None:
    def view(_request: HttpRequest) -> HttpResponse:
        interrupted = SessionInterrupted("the session was deleted")
        interrupted.__context__ = OperationalError("the connection is lost")
        raise interrupted

    assert answered("/admin/", view).status_code == 503
    assert answered("/admin/", raising(SessionInterrupted("deleted"))).status_code == 400


@pytest.mark.parametrize("error", OUTAGES, ids=lambda error: type(error).__name__)
def test_views_of_the_api_answer_outages_with_problem_details(error: Exception) -> None:
    answer = handle(error, {})

    assert answer is not None
    assert (answer.status_code, answer["Retry-After"]) == (503, "1")
    assert handle(ProgrammingError("no such column"), {}) is None


def test_an_error_with_a_suppressed_outage_is_not_an_outage() -> None:
    error = KeyError("x")
    error.__context__, error.__suppress_context__ = OperationalError("lost"), True

    assert not is_outage(error)
