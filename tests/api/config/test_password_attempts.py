"""The API and the admin check a limited number of passwords, also in parallel."""

import os
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from runs.access.models import LoginCount, User
from runs.access.rules import (
    ATTEMPTS_PER_ADDRESS,
    ATTEMPTS_PER_NAME_AND_PLACE,
    WINDOW_SECONDS,
)
from runs.access.services.passwords import BoundedPBKDF2PasswordHasher
from tests.factories import bearer
from tests.web_process import ROOT, WebProcess, web_process

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD = "correct horse battery"
PARALLEL = 40
EVALUATED, REFUSED, SIGNED_IN = "evaluated", "refused", "signed in"
Door = Callable[[httpx.Client, str, str], httpx.Response]


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """Clients to close at the end."""
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebProcess]:
    """A server with a fast password hasher."""
    User.objects.create_user("alice", password=PASSWORD, is_staff=True)
    with web_process(
        tmp_path / "web.log", DJANGO_SETTINGS_MODULE="config.settings.test"
    ) as process:
        yield process


@pytest.fixture
def real_web(tmp_path: Path) -> Iterator[WebProcess]:
    """A server with the password hasher and connection pool of production."""
    hasher = BoundedPBKDF2PasswordHasher()
    User.objects.create(
        username="alice", password=hasher.encode(PASSWORD, hasher.salt()), is_staff=True
    )
    with web_process(tmp_path / "web.log") as process:
        yield process


def by_api(browser: httpx.Client, name: str, password: str) -> httpx.Response:
    return browser.post(
        "/api/v1/session",
        json={"username": name, "password": password},
        headers={"X-CSRFToken": browser.cookies["csrftoken"]},
    )


def by_admin(browser: httpx.Client, name: str, password: str) -> httpx.Response:
    fields = {"username": name, "password": password, "next": "/admin/"}
    token = browser.cookies["csrftoken"]
    return browser.post("/admin/login/", data=fields | {"csrfmiddlewaretoken": token})


DOORS: tuple[Door, ...] = (by_api, by_admin)


def browser_of(web: WebProcess, opened: ExitStack) -> httpx.Client:
    browser = opened.enter_context(httpx.Client(base_url=web.url, timeout=120))
    browser.get("/admin/login/")
    return browser


def outcome(answer: httpx.Response) -> str:
    """Return the outcome of an attempt; fail if it is none of the three."""
    if answer.status_code == 429:
        assert 1 <= int(answer.headers["Retry-After"]) <= WINDOW_SECONDS
        assert "try again in" in answer.text
        return REFUSED
    if answer.status_code == 302 or (answer.status_code == 200 and "authenticated" in answer.text):
        return SIGNED_IN
    assert (answer.status_code, "login_failed" in answer.text) == (403, True) or (
        answer.status_code == 200 and "enter the correct username" in answer.text
    ), f"{answer.status_code}: {answer.text[:300]}"
    return EVALUATED


def attack(web: WebProcess, opened: ExitStack, names: list[str]) -> Counter[str]:
    """Send one guess per name at once through both forms; return the outcomes."""
    browsers = [browser_of(web, opened) for _ in names]
    at_once = threading.Barrier(len(names))

    def guess(number: int) -> str:
        at_once.wait()
        return outcome(DOORS[number % 2](browsers[number], names[number], "a wrong guess"))

    with ThreadPoolExecutor(len(names)) as threads:
        return Counter(threads.map(guess, range(len(names))))


def end_windows() -> None:
    """End the time windows of the counters."""
    assert LoginCount.objects.exists()
    for row in LoginCount.objects.all():
        row.window_ends_at = row.window_ends_at.replace(year=2020)
        row.save()


def test_parallel_guesses_are_evaluated_up_to_the_limit_and_others_are_served(
    real_web: WebProcess, opened: ExitStack
) -> None:
    web = real_web
    headers, answered, is_over = bearer("read"), [], threading.Event()

    def read_runs() -> None:
        with httpx.Client(base_url=web.url, headers=headers, timeout=60) as reader:
            while not is_over.is_set():
                answered.append(reader.get("/api/v1/server").status_code)

    reading = threading.Thread(target=read_runs)
    reading.start()
    try:
        statuses = attack(web, opened, ["alice"] * PARALLEL)
    finally:
        is_over.set()
        reading.join()

    assert statuses[EVALUATED] <= ATTEMPTS_PER_NAME_AND_PLACE
    assert statuses[REFUSED] == PARALLEL - statuses[EVALUATED]
    assert len(answered) > 1
    assert set(answered) == {200}
    for door in DOORS:
        assert outcome(door(browser_of(web, opened), "alice", PASSWORD)) == REFUSED
    end_windows()
    for door in DOORS:
        assert outcome(door(browser_of(web, opened), "alice", PASSWORD)) == SIGNED_IN
    assert "Traceback" not in web.log()


def test_attempts_with_many_names_are_limited_by_address(
    web: WebProcess, opened: ExitStack
) -> None:
    statuses = attack(web, opened, [f"name-{number}" for number in range(PARALLEL)])

    assert statuses[EVALUATED] <= ATTEMPTS_PER_ADDRESS
    assert statuses[REFUSED] == PARALLEL - statuses[EVALUATED]


def test_successful_sign_ins_do_not_count_as_attempts(web: WebProcess, opened: ExitStack) -> None:
    for _ in range(2 * ATTEMPTS_PER_NAME_AND_PLACE):
        assert outcome(by_api(browser_of(web, opened), "alice", PASSWORD)) == SIGNED_IN


@pytest.mark.parametrize("door", DOORS)
def test_failed_attempts_do_not_lock_out_a_known_browser(
    web: WebProcess, opened: ExitStack, door: Door
) -> None:
    own, stranger = browser_of(web, opened), browser_of(web, opened)
    assert outcome(door(own, "alice", PASSWORD)) == SIGNED_IN
    del own.cookies["sessionid"]
    while outcome(by_api(stranger, "alice", "a wrong guess")) == EVALUATED:
        pass

    assert outcome(door(stranger, "alice", PASSWORD)) == REFUSED
    for _ in range(ATTEMPTS_PER_NAME_AND_PLACE):
        assert outcome(door(own, "alice", "a wrong guess")) == EVALUATED
    assert outcome(door(own, "alice", PASSWORD)) == REFUSED
    assert outcome(door(own, "bob", "a wrong guess")) == EVALUATED


def test_the_old_password_in_the_form_of_a_new_one_counts_as_well(
    web: WebProcess, opened: ExitStack
) -> None:
    browser = browser_of(web, opened)
    assert outcome(by_admin(browser, "alice", PASSWORD)) == SIGNED_IN

    def change(old: str) -> httpx.Response:
        fields = {"old_password": old, "new_password1": "a-longer-one", "new_password2": "another"}
        token = browser.cookies["csrftoken"]
        return browser.post("/admin/password_change/", data=fields | {"csrfmiddlewaretoken": token})

    assert change(PASSWORD).status_code == 200
    for _ in range(ATTEMPTS_PER_NAME_AND_PLACE):
        assert change("a wrong guess").status_code == 200
    refused = change(PASSWORD)

    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) <= WINDOW_SECONDS


def forwarded(web: WebProcess, opened: ExitStack, client: str) -> httpx.Client:
    """Return a browser that comes from `client` through a proxy on this machine."""
    browser = opened.enter_context(
        httpx.Client(base_url=web.url, timeout=120, headers={"X-Forwarded-For": client})
    )
    browser.get("/admin/login/")
    return browser


@pytest.mark.parametrize(
    ("proxies", "limits_the_other"),
    [("10.0.0.0/8, 127.0.0.1", False), ("10.0.0.0/8", True), ("", True)],
)
def test_only_a_trusted_proxy_names_the_address_of_an_attempt(
    tmp_path: Path, opened: ExitStack, proxies: str, limits_the_other: bool
) -> None:
    User.objects.create_user("alice", password=PASSWORD)
    with web_process(
        tmp_path / "web.log",
        DJANGO_SETTINGS_MODULE="config.settings.test",
        ROLLDECK_TRUSTED_PROXIES=proxies,
    ) as web:
        attacker = forwarded(web, opened, "203.0.113.9")
        for _ in range(20):
            by_api(attacker, f"nobody-{_}", "a wrong guess")

        own = by_api(attacker, "nobody", "a wrong guess")
        # The first address is under the control of the client, the last one of the proxy.
        lying = by_api(forwarded(web, opened, "198.51.100.7, 203.0.113.9"), "nobody", "a guess")
        other = by_api(forwarded(web, opened, "198.51.100.7"), "alice", PASSWORD)

    assert outcome(own) == outcome(lying) == REFUSED
    assert outcome(other) == (REFUSED if limits_the_other else SIGNED_IN)


def test_a_proxy_that_is_no_network_and_a_port_in_use_end_the_start_with_one_line(
    tmp_path: Path,
) -> None:
    def last_line(place: str, **variables: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "config.web", place, "1"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": ".:platform:client"} | variables,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        return done.stderr.strip().rpartition("\n")[2]

    free = "127.0.0.1:0"
    assert last_line(free, ROLLDECK_TRUSTED_PROXIES="proxy") == (
        "rolldeck: ROLLDECK_TRUSTED_PROXIES: 'proxy' is neither an IP address nor a network such "
        "as 10.0.0.0/8"
    )
    assert last_line(free, ROLLDECK_SECRET_KEY_FILE=f"{tmp_path}/none") == (
        f"rolldeck: ROLLDECK_SECRET_KEY_FILE is '{tmp_path}/none', which cannot be read: No such "
        "file or directory"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        assert last_line(place).startswith(f"rolldeck: cannot listen on {place}: Address already")
