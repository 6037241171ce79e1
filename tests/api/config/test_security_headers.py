"""Every HTML response has a policy; with TLS every response has HSTS."""

import pytest
from django.test import Client
from pytest_django import Settings

from config.middleware import ADMIN, PAGES
from tests.factories import bearer, make_user

pytestmark = pytest.mark.django_db
HTML = {"Accept": "text/html"}


@pytest.mark.parametrize("path", ["/docs", "/login/once", "/static/none", "/metrics/none"])
def test_every_page_has_a_policy(path: str) -> None:
    answer = Client().get(path, headers=HTML)

    policy = answer["Content-Security-Policy"]
    assert answer["Content-Type"].startswith("text/html")
    assert "default-src 'self'" in policy
    assert "script-src 'self'; " in PAGES
    assert "unsafe-eval" not in policy
    assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize("path", ["/admin/", "/admin/login/", "/admin/runs/run/", "/admin/none/"])
def test_the_admin_may_compile_expressions_and_run_no_inline_script(path: str) -> None:
    browser = Client()
    if path != "/admin/login/":
        browser.force_login(make_user(role="admin"))

    answer = browser.get(path)

    assert answer["Content-Security-Policy"] == ADMIN
    assert "script-src 'self' 'unsafe-eval';" in ADMIN


def test_a_refused_form_has_a_policy() -> None:
    answer = Client(enforce_csrf_checks=True).post("/login/once", {"token": "x"})

    assert (answer.status_code, answer["Content-Security-Policy"]) == (403, PAGES)


def test_answers_of_the_api_have_no_policy() -> None:
    assert "Content-Security-Policy" not in Client().get("/api/v1/session")


@pytest.mark.parametrize("path", ["/docs", "/api/v1/session", "/api/v1/runs"])
def test_with_tls_every_answer_has_hsts(settings: Settings, path: str) -> None:
    headers = bearer("read")
    assert "Strict-Transport-Security" not in Client().get(path, headers=headers)
    settings.SESSION_COOKIE_SECURE = True

    answer = Client().get(path, headers=headers)

    assert answer["Strict-Transport-Security"] == "max-age=31536000"
    settings.ROLLDECK_HSTS_SECONDS = 0
    assert "Strict-Transport-Security" not in Client().get(path, headers=headers)
