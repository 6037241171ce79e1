import base64
import hashlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from django.test import Client
from pytest_django import Settings

PLACES = [
    "/login",
    "/tokens",
    "/environments",
    "/trajectories",
    "/cluster",
    "/settings",
    "/runs",
    "/runs/new",
    "/runs/cartpole",
    "/runs/cartpole/fleet/w0",
]
STYLES = "/static/admin/css/base.css"


@pytest.fixture
async def server() -> AsyncIterator[httpx.AsyncClient]:
    """HTTP client of the web application, without its socket."""
    from config.asgi import application

    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", timeout=60
    ) as client:
        yield client


@pytest.fixture
def built(tmp_path: Path, settings: Settings) -> Path:
    (tmp_path / "index.html").write_text('<!doctype html><html lang="en"><title>Rolldeck</title>')
    settings.FRONTEND_DIST = tmp_path
    return tmp_path


@pytest.mark.parametrize("place", PLACES)
def test_every_dashboard_url_serves_the_same_page(client: Client, built: Path, place: str) -> None:
    response = client.get(place)

    assert response.status_code == 200
    assert b"Rolldeck" in response.content


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/runs/pole/pipeline", "/runs/pole/fleet"),
        ("/runs/pole/episodes", "/runs/pole/trajectories?kind=episode"),
        ("/runs/pole/evaluations?lesson=sums", "/runs/pole/curriculum?lesson=sums"),
        ("/projects", "/runs"),
        ("/projects/poles", "/runs?q=project:poles"),
    ],
)
def test_addresses_of_removed_pages_redirect(client: Client, old: str, new: str) -> None:
    response = client.get(old)

    assert (response.status_code, response["Location"]) == (302, new)


def test_the_page_sets_a_csrf_cookie_and_is_never_cached(client: Client, built: Path) -> None:
    response = client.get("/runs")

    assert "csrftoken" in response.cookies
    assert "no-store" in response["Cache-Control"]


@pytest.mark.django_db(transaction=True)
async def test_the_page_states_whether_the_browser_has_a_session(
    server: httpx.AsyncClient, built: Path
) -> None:
    assert "data-session" not in (await server.get("/runs")).text

    server.cookies.set("sessionid", "whether it still holds, the API says")
    answer = await server.get("/runs")
    assert (answer.status_code, '<html data-session lang="en">' in answer.text) == (200, True)


def test_the_page_may_load_nothing_from_other_hosts(client: Client, built: Path) -> None:
    policy = client.get("/runs")["Content-Security-Policy"]

    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "http" not in policy


def test_only_the_inline_script_of_the_build_may_run(client: Client, built: Path) -> None:
    script = "document.title = 'Rolldeck'"
    (built / "index.html").write_text(f"<html><script>{script}</script>")
    policy = client.get("/runs")["Content-Security-Policy"]

    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.endswith(f"; script-src 'self' 'sha256-{digest}'")


def test_a_browser_at_the_root_receives_the_dashboard(client: Client, built: Path) -> None:
    response = client.get("/", headers={"accept": "text/html,*/*"})

    assert b"<title>Rolldeck</title>" in response.content


def test_a_missing_dashboard_build_is_reported_with_the_command(
    client: Client, tmp_path: Path, settings: Settings
) -> None:
    settings.FRONTEND_DIST = tmp_path / "nowhere"

    response = client.get("/runs")

    assert response.status_code == 503
    assert b"npm ci" in response.content


def test_the_page_refuses_posts(client: Client, built: Path) -> None:
    assert client.post("/runs").status_code == 405


@pytest.mark.parametrize(
    ("url", "is_hashed"),
    [
        ("/static/app/assets/index-BnqRhc5N.js", True),
        ("/static/app/assets/RunPage-H_1fP-3u.css", True),
        ("/static/app/assets/inter-latin-wght-normal-Dx4kXJAl.woff2", True),
        ("/static/app/mark.svg", False),
        ("/static/admin/css/base.css", False),
    ],
)
def test_only_files_with_a_hash_in_their_name_are_immutable(
    url: str, is_hashed: bool, settings: Settings
) -> None:
    assert bool(re.match(settings.WHITENOISE_IMMUTABLE_FILE_TEST, url)) is is_hashed


async def test_a_static_file_is_complete_and_has_its_content_type(
    server: httpx.AsyncClient,
) -> None:
    answer = await server.get(STYLES)

    assert len(answer.content) > 1000
    assert answer.headers["content-type"].startswith("text/css")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "frame-ancestors 'none'"
    assert (await server.head(STYLES)).headers["content-length"] == str(len(answer.content))


async def test_byte_ranges_of_static_files_are_served(server: httpx.AsyncClient) -> None:
    whole = await server.get(STYLES)
    part = await server.get(STYLES, headers={"range": "bytes=10-19"})

    assert (part.status_code, part.content) == (206, whole.content[10:20])


async def test_a_static_file_that_has_not_changed_is_not_sent(server: httpx.AsyncClient) -> None:
    last_modified = (await server.get(STYLES)).headers["last-modified"]
    again = await server.get(STYLES, headers={"if-modified-since": last_modified})

    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("place", ["/static/no/such.css", "/static/../manage.py", "/static/"])
async def test_other_paths_are_not_found(server: httpx.AsyncClient, place: str) -> None:
    assert (await server.get(place)).status_code == 404


async def test_static_files_refuse_posts(server: httpx.AsyncClient) -> None:
    assert (await server.post(STYLES)).status_code in {404, 405}


def test_an_unknown_address_is_reported_by_the_dashboard(client: Client, built: Path) -> None:
    reader = client.get("/no/such/page", headers={"accept": "text/html,*/*"})
    assert (reader.status_code, b"Rolldeck" in reader.content) == (404, True)

    # Programs, and requests that write, get a plain 404.
    assert b"Rolldeck" not in client.get("/no/such/page").content
    assert client.post("/no/such/page", headers={"accept": "text/html"}).status_code == 404
    response = client.get("/api/v1/no/such/thing", headers={"accept": "text/html"})
    assert (response.status_code, response.json()["code"]) == (404, "not_found")
