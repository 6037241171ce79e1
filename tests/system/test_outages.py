"""A killed PostgreSQL or Valkey causes seconds of outage: 503, `Retry-After`, no lost call."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final
from uuid import uuid4

import httpx
import psutil
import psycopg
import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RegexPattern, RoutePattern
from django.utils.regex_helper import normalize
from django.views.generic import RedirectView
from rest_framework.views import APIView
from websockets.exceptions import ConnectionClosed
from websockets.frames import Close
from websockets.sync.client import connect

from buffer.atropos.api.routes import RootView
from buffer.atropos.api.view import AtroposView
from config.settings.connections import POOL_CONNECTIONS  # noqa: TID251 under test
from config.urls import root
from frontend.pages import index
from tests.buffer_factories import REGISTRATION, group
from tests.server import (
    ADMIN_TOKEN,
    FOR_THREADS,
    NO_RAY,
    Server,
    environment,
    running_server,
    wait_until,
)

pytestmark = [
    pytest.mark.system,
    pytest.mark.release("starts, loads and kills servers for minutes"),
]

PASSWORD: Final = "a-password-for-tests"
ASKED_AT_ONCE: Final = 48
# Routes without database queries.
NO_DATABASE: Final = ("docs/errors", "guide/", "healthz/live", "static/", "login/once")
WITH_SESSION: Final = ("api/v1/session", "api/v1/presets", "api/v1/alerts")
EXAMPLES: Final = ("1", "x", str(uuid4()))
"""A value for each kind of parameter."""
BY_NAME: Final = {"app_label": "runs", "url": "nothing"}
PROBLEM, JSON, PAGE = "application/problem+json", "application/json", "text/html"
PAGES: Final = 5 * POOL_CONNECTIONS
PRODUCERS: Final = 8


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("outages"), RAY_ADDRESS=NO_RAY) as server:
        wait_until(lambda: "Ready on" in server.log(), seconds=300, what="every part is ready")
        yield server


def runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@contextmanager
def without(server: Server, *words: str) -> Iterator[None]:
    """Kill a server with SIGKILL, and keep the supervisor from restarting it."""
    pid = server.child(*words)
    backends = psutil.Process(pid).children()
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        os.kill(pid, signal.SIGKILL)
        # PostgreSQL's backends end shortly after their postmaster.
        wait_until(lambda: not any(map(runs, backends)), seconds=60, what="every backend ended")
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
        wait_until(server.is_ready, seconds=60, what="the server is ready again")
        # Each old connection of the pool fails one request.
        with ThreadPoolExecutor(ASKED_AT_ONCE) as threads:
            wait_until(
                lambda: all(threads.map(lambda _: server.is_ready(), range(2 * ASKED_AT_ONCE))),
                seconds=60,
                what="every connection is new",
            )


def get_routes() -> Iterator[tuple[str, str]]:
    """Yield the path of every route with a GET method, and the format of its errors."""
    for route, pattern in _patterns(get_resolver(), ""):
        view = getattr(pattern.callback, "view_class", getattr(pattern.callback, "cls", None))
        if view is not None and not hasattr(view, "get"):
            continue
        if view in (RootView, RedirectView):
            continue
        if view is not None and issubclass(view, APIView):
            yield route, JSON if issubclass(view, AtroposView) else PROBLEM
        elif pattern.callback not in (index, root):
            yield route, PROBLEM if route.startswith("healthz/") else PAGE


def _patterns(resolver: Any, prefix: str) -> Iterator[tuple[str, URLPattern]]:
    for pattern in resolver.url_patterns:
        for part in _examples(pattern.pattern):
            if isinstance(pattern, URLResolver):
                yield from _patterns(pattern, prefix + part)
            else:
                yield prefix + part, pattern


def _examples(pattern: Any) -> Iterator[str]:
    """Yield one path that matches."""
    if isinstance(pattern, RegexPattern):
        text, names = normalize(str(pattern._regex))[0]  # type: ignore[attr-defined]
        yield text % {name: BY_NAME[name] for name in names}
        return
    assert isinstance(pattern, RoutePattern)
    text = str(pattern)
    for name, converter in pattern.converters.items():
        shown = next(example for example in EXAMPLES if re.fullmatch(converter.regex, example))
        text = re.sub(rf"<(\w+:)?{name}>", shown, text)
    yield text


@pytest.fixture(scope="module")
def browser(server: Server) -> Iterator[httpx.Client]:
    """Open a browser session of an administrator."""
    name = f"admin-{uuid4().hex[:6]}"
    subprocess.run(
        [sys.executable, "manage.py", "createsuperuser", "--noinput"]  # noqa: RUF005 a command
        + ["--username", name, "--email", "admin@example.org"],
        env=environment(server.var, server.port, DJANGO_SUPERUSER_PASSWORD=PASSWORD),
        check=True,
        capture_output=True,
    )
    with httpx.Client(base_url=server.url, timeout=60, limits=FOR_THREADS) as browser:
        browser.get("/api/v1/session")
        answer = browser.post(
            "/api/v1/session",
            json={"username": name, "password": PASSWORD},
            headers={"X-CSRFToken": browser.cookies.get("csrftoken") or "", "Origin": server.url},
        )
        assert answer.is_success, answer.text
        yield browser


def flaw(answer: httpx.Response, form: str) -> str:
    """Return the problem with a response during an outage, or an empty text."""
    content_type = answer.headers.get("Content-Type", "").partition(";")[0]
    if answer.status_code != 503:
        return f"answered {answer.status_code}"
    if not answer.headers.get("Retry-After", "").isdigit():
        return "has no Retry-After"
    if content_type != form:
        return f"answered {content_type}, not {form}"
    if form == PROBLEM and answer.json()["code"] not in {"unavailable", "not_ready"}:
        return f"has the code {answer.json()['code']}"
    return ""


def test_every_route_answers_503_in_its_own_format_without_the_database(
    server: Server, browser: httpx.Client
) -> None:
    requests = [(route, form) for route, form in get_routes() if not route.startswith(NO_DATABASE)]
    assert len(requests) > 250

    def send_request(route: str, form: str) -> str:
        # The admin redirects anonymous users to its sign-in, without a query.
        client = browser if route.startswith(("admin/", *WITH_SESSION)) else server.http
        answer = client.get(
            f"/{route}", headers={"Accept": "text/html"} if form == PAGE else {}, timeout=60
        )
        wrong = flaw(answer, form)
        return f"{route}: {wrong}: {answer.text[:200]}" if wrong else ""

    with (
        without(server, "postgres", "-D"),
        ThreadPoolExecutor(ASKED_AT_ONCE) as threads,
    ):
        wrong = [
            text for text in threads.map(lambda request: send_request(*request), requests) if text
        ]

    assert wrong == [], "\n".join(wrong)


def test_sockets_are_closed_for_a_reconnect_without_the_database(
    server: Server, browser: httpx.Client
) -> None:
    run = server.new_run("sockets")
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    ws = server.url.replace("http", "ws")
    with without(server, "postgres", "-D"):
        for path, headers in (
            ("/ws/live", {"Cookie": cookies}),
            (f"/ws/runs/{run}/control", {"Authorization": f"Bearer {ADMIN_TOKEN}"}),
        ):
            with (
                connect(ws + path, additional_headers={"Origin": server.url, **headers}) as socket,
                pytest.raises(ConnectionClosed) as closed,
            ):
                socket.recv(timeout=30)
            assert closed.value.rcvd == Close(1013, "")


def test_no_route_answers_500_without_redis(server: Server, browser: httpx.Client) -> None:
    server.new_run("no-redis")
    with without(server, "valkey"), ThreadPoolExecutor(8) as threads:
        answers = list(
            threads.map(
                lambda route: browser.get(f"/{route}", timeout=60),
                [route for route, _ in get_routes()],
            )
        )
        run = server.new_run("while-redis-is-away")
        server.post(f"/api/v1/runs/{run}/drain")

    failed = [(answer.url, answer.text) for answer in answers if answer.status_code >= 500]
    assert failed == []


@contextmanager
def session_of(server: Server) -> Iterator["psycopg.Connection[Any]"]:
    """Open a session with the server's database, separate from the server's own."""
    services = json.loads((server.var / "run" / "services.json").read_text())
    with psycopg.connect(services["DATABASE_URL"], autocommit=True) as session:
        yield session


def pushed(server: Server, run: str, mark: int) -> tuple[int, float]:
    """Push a group once; return the status and the duration in seconds."""
    began = time.monotonic()
    answer = httpx.post(
        f"{server.url}/atropos/{run}/scored_data",
        json=group(mark=mark, sequences=1),
        headers={"Authorization": f"Bearer {ADMIN_TOKEN}", "Idempotency-Key": f"group {mark}"},
        timeout=60,
    )
    if answer.status_code != 200:
        assert answer.headers["Retry-After"].isdigit(), answer.text
    return answer.status_code, time.monotonic() - began


def test_pages_that_use_up_the_pool_do_not_delay_pushes(
    server: Server, browser: httpx.Client
) -> None:
    run = server.new_run("pool")
    server.post(f"/atropos/{run}/register", REGISTRATION)
    # Each web process has its own pool.
    pooled = POOL_CONNECTIONS * len(server.children("config.web"))
    assert pooled < PAGES

    def page(_: int) -> tuple[int, str | None]:
        answer = browser.get("/api/v1/presets", timeout=120)
        return answer.status_code, answer.headers.get("Retry-After")

    with (
        session_of(server) as session,
        ThreadPoolExecutor(PAGES) as threads,
        ThreadPoolExecutor(PRODUCERS) as producers,
    ):
        with session.transaction():
            # Each page looks up its session and holds its connection until this transaction ends.
            session.execute("LOCK TABLE django_session IN ACCESS EXCLUSIVE MODE")
            pages = [threads.submit(page, number) for number in range(PAGES)]
            wait_until(
                lambda: sum(page.done() for page in pages) >= PAGES - pooled,
                seconds=60,
                what="pages without a connection are answered",
            )
            refused = [page.result() for page in pages if page.done()]
            # As many at once as threads, most of which are not started yet.
            pushes = list(producers.map(lambda mark: pushed(server, run, mark), range(1, 21)))
        answers = [page.result() for page in pages]

    assert set(refused) == {(503, "1")}
    assert [status for status, _ in pushes] == [200] * 20
    assert set(answers) - set(refused) == {(200, None)}
    assert server.get(f"/api/v1/runs/{run}/ledger")["groups"]["accepted"] == 20


def test_connections_of_a_restarted_database_fail_no_page(
    server: Server, browser: httpx.Client
) -> None:
    def page(_: int) -> int:
        return browser.get("/api/v1/presets", timeout=120).status_code

    with session_of(server) as session, ThreadPoolExecutor(PAGES) as threads:
        # Every connection of every pool was in use.
        with session.transaction():
            session.execute("LOCK TABLE django_session IN ACCESS EXCLUSIVE MODE")
            pages = [threads.submit(page, number) for number in range(PAGES)]
            wait_until(
                lambda: any(page.done() for page in pages), seconds=60, what="the pools are full"
            )
        assert {page.result() for page in pages} == {200, 503}
        session.execute(  # waits for their end, up to 60 s each
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        assert list(map(page, range(4 * POOL_CONNECTIONS))) == [200] * 4 * POOL_CONNECTIONS


@pytest.mark.last("the pool for pages reconnects at growing intervals")
def test_pushes_are_answered_at_once_when_the_server_has_no_connection_left(server: Server) -> None:
    run = server.new_run("taken")
    server.post(f"/atropos/{run}/register", REGISTRATION)
    with ExitStack() as taken, ThreadPoolExecutor(16) as threads:
        with suppress(psycopg.OperationalError):
            while True:
                taken.enter_context(session_of(server))
        pushes = list(threads.map(lambda mark: pushed(server, run, mark), range(1, 41)))

    assert {status for status, _ in pushes} <= {200, 503}
    again = [pushed(server, run, mark)[0] for mark in range(1, 41)]
    assert again == [200] * 40
    # The pool for pages reconnects at growing intervals; until then they get 503.
    ledger = wait_until(
        lambda: server.get(f"/api/v1/runs/{run}/ledger"), seconds=60, what="pages are served again"
    )
    assert ledger["groups"]["accepted"] == 40
