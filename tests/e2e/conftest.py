"""Fixtures that open a real server in a real Chromium."""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)

from tests import processes
from tests.scheduling import DASHBOARD_RESOURCES
from tests.server import ROOT, Server, environment, free_port, running_server, wait_until
from tests.webhook_receiver import Receiver, receiver

# Playwright's own choice for headless tests: it loads a page in half the time of the full browser.
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium-headless-shell")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Chromium itself logs responses that the API refuses: invalid forms, missing permissions and
# missing objects. A missing image or script still counts as a complaint.
_REFUSED = re.compile(r"the server responded with a status of 4(?:0[03]|04 .*/api/|29)")
USERNAME = "ada"
VIEWER = "vic"
OPERATOR = "olga"
SIGNED_OUT = "sue"
"""A viewer whose sessions a test ends; those of the others are shared between tests."""
PASSWORD = "a-password-for-tests"
INFERENCE_SERVER = "local"
WEBHOOK_SECRET = "between us"
PLAY = """
from contextlib import suppress
from django.utils import timezone
from tests.sample_runs import sample_runs
fleets = sample_runs.write(clock=timezone.now)
print("the sample runs are written", flush=True)
with suppress(KeyboardInterrupt):
    sample_runs.keep_alive(fleets, clock=timezone.now)
sample_runs.end(fleets, now=timezone.now())
"""
# A busy machine may need long for short operations.
expect.set_options(timeout=30_000)


@pytest.fixture(scope="session")
def shared() -> Iterator[ExitStack]:
    """Resources that live until this process has no more dashboard tests (tests/conftest.py)."""
    with DASHBOARD_RESOURCES:
        yield DASHBOARD_RESOURCES


@pytest.fixture(scope="session")
def webhook(shared: ExitStack) -> Receiver:
    """A local HTTP receiver for the webhooks of alerts."""
    return shared.enter_context(receiver())


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the server's checkpoints, empty at first."""
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="session")
def server(
    tmp_path_factory: pytest.TempPathFactory,
    webhook: Receiver,
    shared: ExitStack,
    checkpoints: Path,
) -> Server:
    page = Path(settings.FRONTEND_DIST) / "index.html"
    assert page.is_file(), "the dashboard is not built: cd frontend && npm ci && npm run build"
    inference = {"kind": "rolldeck", "url": f"http://127.0.0.1:{free_port()}"}
    variables = {
        "ROLLDECK_CHECKPOINTS": str(checkpoints),
        "ROLLDECK_INFERENCE_SERVERS": json.dumps({INFERENCE_SERVER: inference}),
        "ROLLDECK_ALERT_WEBHOOKS": webhook.url,
        "ROLLDECK_ALERT_WEBHOOK_SECRET": WEBHOOK_SECRET,
        "ROLLDECK_ENVIRONMENT_WRAPPERS": "module:gymnasium.wrappers:TimeLimit",
    }
    var = tmp_path_factory.mktemp("browser")
    variables["ROLLDECK_DATASETS"] = str(var / "datasets")
    server = shared.enter_context(running_server(var, **variables))
    create_superuser(server)
    in_the_shell(
        server,
        "from django.contrib.auth.models import Group;"
        "from runs.access.models import User;"
        f"[User.objects.create_user(name, password={PASSWORD!r})"
        f" for name in ({VIEWER!r}, {SIGNED_OUT!r})];"
        "operators = Group.objects.get_or_create(name='operator')[0].user_set;"
        f"operators.add(User.objects.create_user({OPERATOR!r}, password={PASSWORD!r}))",
    )
    return server


@pytest.fixture(scope="session")
def seeded_server(server: Server, shared: ExitStack) -> Server:
    """The server with sample runs (tests/sample_runs); the live run has a fake fleet."""
    shared.enter_context(seeded(server))
    return server


@contextmanager
def seeded(server: Server) -> Iterator[None]:
    """Write sample runs into a server, and report for the live fleets until the block ends."""
    log = server.var / "seed.log"
    with log.open("ab") as output:
        process = processes.start(
            [sys.executable, "manage.py", "shell", "-c", PLAY],
            cwd=ROOT,
            env=environment(server.var, server.port),
            stdout=output,
            stderr=output,
        )

    def is_seeded() -> bool:
        assert process.poll() is None, log.read_text()
        return "the sample runs are written" in log.read_text()

    try:
        wait_until(is_seeded, seconds=300, what="the server is seeded")
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(180)


def create_superuser(server: Server) -> None:
    processes.run(
        [sys.executable, "manage.py", "createsuperuser", "--noinput"]  # noqa: RUF005 a command
        + ["--username", USERNAME, "--email", "ada@example.org"],
        cwd=ROOT,
        env=environment(server.var, server.port, DJANGO_SUPERUSER_PASSWORD=PASSWORD),
        capture_output=True,
        check=True,
        timeout=180,
    )


def in_the_shell(server: Server, code: str, *, seconds: float = 180) -> str:
    """Run code in `manage.py shell` against the server, and return the output."""
    done = processes.run(
        [sys.executable, "manage.py", "shell", "-c", code],
        cwd=ROOT,
        env=environment(server.var, server.port),
        capture_output=True,
        timeout=seconds,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def chromium(shared: ExitStack) -> Browser:
    playwright = shared.enter_context(sync_playwright())
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
    shared.callback(browser.close)
    return browser


@pytest.fixture
def context(chromium: Browser, server: Server) -> Iterator[BrowserContext]:
    context = chromium.new_context(
        base_url=server.url, viewport={"width": 1440, "height": 900}, color_scheme="dark"
    )
    context.set_default_timeout(30_000)
    yield context
    context.close()


def complaints_of(page: Page) -> list[str]:
    """Return a list that collects all errors and warnings in the console of a page."""
    complaints: list[str] = []

    def record(message: ConsoleMessage) -> None:
        text = f"{message.text} {message.location['url']}"
        if message.type in {"error", "warning"} and not _REFUSED.search(text):
            complaints.append(text)

    page.on("console", record)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return complaints


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page with a silent console; any error or warning fails the test."""
    page = context.new_page()
    complaints = complaints_of(page)
    yield page
    assert complaints == []


# The server and its users live as long as this process.
_signed_in: dict[str, list[Any]] = {}


def sign_in(page: Page, username: str) -> Page:
    """Sign a user in on a page, without opening a view.

    Each user signs in once and shares one session between all tests. Tests that end sessions or
    check sign-ins use `sign_in_anew`.
    """
    if username not in _signed_in:
        form = page.context.new_page()
        _signed_in[username] = sign_in_anew(form, username).context.cookies()
        form.close()
    page.context.add_cookies(_signed_in[username])
    return page


def sign_in_anew(page: Page, username: str) -> Page:
    """Sign in with the form; the page then shows the list of runs."""
    page.goto("/login")
    page.get_by_label("User name").fill(username)
    page.get_by_role("textbox", name="Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Runs", exact=True).wait_for()
    return page


@pytest.fixture
def signed_in(page: Page) -> Page:
    """A page with an administrator's session, without an open view."""
    return sign_in(page, USERNAME)


@pytest.fixture
def at_home(signed_in: Page) -> Page:
    """A page that shows an administrator the first page, the list of runs."""
    signed_in.goto("/")
    signed_in.get_by_role("heading", name="Runs", exact=True).wait_for()
    return signed_in
