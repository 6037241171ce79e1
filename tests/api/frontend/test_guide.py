"""The server shows the built documentation site under /guide."""

import base64
import hashlib
import runpy
import zipfile
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from tests.server import ROOT

pytestmark = pytest.mark.django_db
SCRIPT = "document.title = 'Guide'"
SITE = {
    "index.html": "<h1>Rolldeck</h1>",
    "404.html": "<h1>404 - Not found</h1>",
    "howto/trl.html": f"<script>{SCRIPT}</script><h1>TRL</h1>",
    "assets/style.css": "h1 { color: red }",
    "search.json": "{}",
}


def write(folder: Path) -> None:
    """Write the site into a folder."""
    for name, text in SITE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture(params=["folder", "archive"])
def site(request: pytest.FixtureRequest, tmp_path: Path, settings: Settings) -> Path:
    """A site with a page, a style sheet and a file beside it that is not part of it."""
    folder = tmp_path / "site"
    if request.param == "archive":
        with zipfile.ZipFile(folder.with_suffix(".zip"), "w") as archive:
            for name, text in SITE.items():
                archive.writestr(name, text)
    else:
        write(folder)
    (tmp_path / "secret.html").write_text("secret")
    settings.GUIDE_SITE = folder
    return folder


@pytest.mark.parametrize(
    ("path", "status", "kind", "text"),
    [
        ("/guide/", 200, "text/html", "Rolldeck"),
        ("/guide/howto/trl.html", 200, "text/html", "TRL"),
        ("/guide/howto/trl", 200, "text/html", "TRL"),
        ("/guide/assets/style.css", 200, "text/css", "color"),
        ("/guide/search.json", 200, "application/json", "{}"),
        ("/guide/howto/flying", 404, "text/html", "Not found"),
        ("/guide/howto", 404, "text/html", "Not found"),
        ("/guide/../secret.html", 404, "text/html", "Not found"),
        ("/guide/%2e%2e/secret", 404, "text/html", "Not found"),
        ("/guide//etc/passwd", 404, "text/html", "Not found"),
        ("/guide/a%00b", 404, "text/html", "Not found"),
        ("/guide/.", 404, "text/html", "Not found"),
        ("/guide/" + "x" * 300, 404, "text/html", "Not found"),
    ],
)
@pytest.mark.usefixtures("site")
def test_a_path_is_answered_with_its_file(path: str, status: int, kind: str, text: str) -> None:
    answer = Client().get(path)

    assert (answer.status_code, answer["Content-Type"].partition(";")[0]) == (status, kind)
    assert text in answer.content.decode()


@pytest.mark.usefixtures("site")
def test_the_address_without_a_slash_redirects() -> None:
    answer = Client().get("/guide")

    assert (answer.status_code, answer["Location"]) == (302, "/guide/")


@pytest.mark.usefixtures("site")
def test_a_page_may_run_only_the_scripts_of_its_build() -> None:
    policy = Client().get("/guide/howto/trl.html")["Content-Security-Policy"]

    expected = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{expected}'" in policy
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "sha256" not in Client().get("/guide/")["Content-Security-Policy"]


@pytest.mark.usefixtures("site")
def test_an_unchanged_page_is_not_sent_again() -> None:
    first = Client().get("/guide/")

    again = Client().get("/guide/", headers={"If-None-Match": first["ETag"]})

    assert (again.status_code, again.content) == (304, b"")


def test_without_a_site_the_command_that_builds_it_is_shown(
    tmp_path: Path, settings: Settings
) -> None:
    settings.GUIDE_SITE = tmp_path / "none"

    answer = Client().get("/guide/howto/trl.html")

    assert answer.status_code == 503
    assert "make docs" in answer.content.decode()
    assert "docs:" in (ROOT / "Makefile").read_text()


def test_the_archive_has_the_pages_without_screenshots(tmp_path: Path) -> None:
    folder = tmp_path / "build/docs"
    write(folder)
    (folder / "index.html").write_text('<h1>Guide</h1>\n<picture>\n<img src="a.png">\n</picture>!')
    for name in ("images/run.png", "images/figure.svg", "assets/icon.png"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("picture")
    pack = runpy.run_path(str(ROOT / ".ci/pack-guide"))

    pack["pack"](folder)

    with zipfile.ZipFile(folder.with_suffix(".zip")) as archive:
        assert set(archive.namelist()) == {*SITE, "images/figure.svg", "assets/icon.png"}
        assert archive.read("index.html") == b"<h1>Guide</h1>\n!"
