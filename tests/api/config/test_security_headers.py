"""Every response has a policy; with TLS every response has HSTS, and cookies are of this host."""

import os
import subprocess
import sys

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


@pytest.mark.parametrize("path", ["/docs", "/login/once", "/admin/login/"])
def test_a_page_has_no_plugins_and_no_other_base(path: str) -> None:
    policy = Client().get(path, headers=HTML)["Content-Security-Policy"]

    assert {"object-src 'none'", "base-uri 'none'"} <= {*policy.split("; ")}


@pytest.mark.parametrize("path", ["/api/v1/runs", "/api/v1/none", "/openapi.json", "/healthz/live"])
def test_other_answers_are_in_no_frame_and_keep_their_type(path: str) -> None:
    answer = Client().get(path, headers=bearer("read"))

    assert answer["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert answer["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/docs", "/api/v1/runs", "/admin/login/"])
def test_addresses_are_not_sent_to_other_sites(path: str) -> None:
    assert Client().get(path, headers=bearer("read"))["Referrer-Policy"] == "same-origin"


@pytest.mark.parametrize("path", ["/api/v1/runs", "/api/v1/server", "/api/v1/tokens"])
def test_data_of_the_api_is_not_cached(path: str) -> None:
    assert "no-store" in Client().get(path, headers=bearer("admin"))["Cache-Control"]


@pytest.mark.parametrize("path", ["/api/v1/runs", "/docs", "/static/none"])
def test_no_answer_permits_other_origins(path: str) -> None:
    answer = Client().get(path, headers=bearer("read") | {"Origin": "https://evil.example"})

    assert not [name for name in answer.headers if name.startswith("Access-Control-")]


@pytest.mark.parametrize("path", ["/api/v1/runs", "/login/once", "/runs", "/register"])
def test_trace_is_refused(path: str) -> None:
    assert Client().trace(path, headers=bearer("admin")).status_code == 405


def test_cookies_of_https_belong_to_this_host() -> None:
    script = """if True:
        import django
        django.setup()
        from django.conf import settings
        print(settings.SESSION_COOKIE_NAME, settings.SESSION_COOKIE_SECURE)
        print(settings.CSRF_COOKIE_NAME, settings.CSRF_COOKIE_SECURE, settings.COOKIE_PREFIX)
    """

    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "ROLLDECK_HTTPS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )

    names = ["__Host-sessionid", "True", "__Host-csrftoken", "True", "__Host-"]
    assert done.stdout.split() == names, done.stderr


def test_a_session_cookie_is_hidden_from_scripts_and_other_sites() -> None:
    make_user()
    browser = Client()

    browser.post("/api/v1/session", {"username": "alice", "password": "alice"}, "application/json")

    for name in ("sessionid", "rolldeck_browser"):
        cookie = browser.cookies[name]
        assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/")
    assert browser.cookies["csrftoken"]["samesite"] == "Lax"
    assert browser.cookies["sessionid"]["max-age"] == 14 * 24 * 3600


@pytest.mark.parametrize("path", ["/docs", "/api/v1/session", "/api/v1/runs"])
def test_with_tls_every_answer_has_hsts(settings: Settings, path: str) -> None:
    headers = bearer("read")
    assert "Strict-Transport-Security" not in Client().get(path, headers=headers)
    settings.SESSION_COOKIE_SECURE = True

    answer = Client().get(path, headers=headers)

    assert answer["Strict-Transport-Security"] == "max-age=31536000; includeSubDomains"
    settings.ROLLDECK_HSTS_SECONDS = 0
    assert "Strict-Transport-Security" not in Client().get(path, headers=headers)
