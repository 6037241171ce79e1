"""A one-time login link signs in once, over real HTTP, and never appears in a log."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from django.contrib.sessions.models import Session

from runs.access.services.login_links import make_login_link
from tests.factories import make_user
from tests.login_links import redeem
from tests.web_process import web_process

pytestmark = pytest.mark.django_db(transaction=True)

PARALLEL = 10


def test_parallel_redemptions_begin_one_session(tmp_path: Path) -> None:
    settings = {"DJANGO_SETTINGS_MODULE": "config.settings.test", "ROLLDECK_LOG_LEVEL": "DEBUG"}
    with web_process(tmp_path / "web.log", **settings) as web, ExitStack() as opened:
        path = make_login_link(make_user(), now=datetime.now(UTC))
        link, token = web.url + path, path.partition("#")[2]
        browsers = [opened.enter_context(httpx.Client(timeout=60)) for _ in range(PARALLEL)]
        for browser in browsers:
            assert browser.head(link).status_code == 200
            page = browser.get(link)
            assert (page.status_code, token in page.text) == (200, False)
        assert not Session.objects.exists()
        at_once = threading.Barrier(PARALLEL)

        def press(browser: httpx.Client) -> int:
            at_once.wait()
            return redeem(browser, link).status_code

        with ThreadPoolExecutor(PARALLEL) as threads:
            responses = sorted(threads.map(press, browsers))

        assert responses == [302, *[403] * (PARALLEL - 1)]
        assert Session.objects.count() == 1
        known = [browser.get(f"{web.url}/api/v1/session").json() for browser in browsers]
        assert sorted(session["username"] for session in known) == [*[""] * (PARALLEL - 1), "alice"]
        assert token not in web.log()
