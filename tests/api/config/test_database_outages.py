"""A database outage yields 503 everywhere; programming errors stay 500."""

from collections.abc import Callable

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
]
MISTAKES = [ProgrammingError("no such column"), KeyError("x"), ZeroDivisionError()]


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
