"""The documentation site builds without warnings, is complete, and links only to its own files."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pytest
import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
CONFIG: Final[dict[str, Any]] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
PATH: Final = [
    "start/install.md",
    "start/first-run.md",
    "start/environment.md",
    "start/reward.md",
    "start/trainer.md",
    "howto/trl.md",
    "howto/atropos.md",
    "start/bad-run.md",
]
PRINTED: Final = {"reference/cli.md", "reference/client.md"}
"""Pages that are printed from the code."""
PRINTED_BLOCK: Final = re.compile(
    r"<!-- (\w+): [^>]* from here -->.*<!-- \1: to here -->", re.DOTALL
)
LOOKED_UP: Final = {"operate/asvs.md"}
"""Pages that are one table with a row for each requirement of a standard, not read as a whole."""
MOST_WORDS: Final = 44_000
OF_THE_SERVER: Final = {"/docs", "/"}
"""Addresses outside of the site that every server answers."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it, in a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / str(CONFIG["site_dir"])


class Links(HTMLParser):
    """Targets of links, pictures, scripts and styles of a page, and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        facts = {name: value or "" for name, value in attrs}
        self.anchors.add(facts.get("id", ""))
        if facts.get("rel") != "canonical":
            named = (facts.get(name) for name in ("href", "src", "srcset"))
            self.targets += [target for target in named if target]


def read(page: Path) -> Links:
    links = Links()
    links.feed(page.read_text(encoding="utf-8"))
    return links


def pages_of(nav: Any) -> Iterator[str]:
    """Yield the files of the navigation, in order."""
    if isinstance(nav, str):
        yield nav
    for entry in nav if isinstance(nav, list) else nav.values() if isinstance(nav, dict) else ():
        yield from pages_of(entry)


def test_every_page_is_in_the_navigation_once() -> None:
    docs = ROOT / "docs"
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    listed = list(pages_of(CONFIG["nav"]))

    # The index of decisions lists each of them.
    decisions = {page for page in pages if re.match(r"adr/\d", page)}
    assert sorted(pages - decisions - {*listed}) == []
    assert sorted(page for page in listed if not (docs / page).is_file()) == []
    assert len(listed) == len({*listed}) > 50


def test_the_navigation_begins_with_the_path_of_a_new_user() -> None:
    (start,) = (entry["Start"] for entry in CONFIG["nav"] if "Start" in entry)

    assert list(pages_of(start)) == PATH


def test_all_links_of_the_site_lead_to_its_files_and_headings(site: Path) -> None:
    found = {page: read(page) for page in site.rglob("*.html") if page.name != "404.html"}
    broken, loaded = [], set()
    for page, links in found.items():
        for target in links.targets:
            url = urlsplit(target)
            if url.scheme or url.netloc:
                loaded |= set() if url.scheme in {"http", "https", "mailto"} else {target}
                continue
            if url.path.startswith("/"):
                broken += [] if url.path in OF_THE_SERVER else [f"{page.name}: {target}"]
                continue
            file = (page.parent / unquote(url.path)).resolve() if url.path else page
            file = file / "index.html" if file.is_dir() else file
            anchors = found[file].anchors if file in found else set()
            is_known = not url.fragment or file not in found or unquote(url.fragment) in anchors
            broken += [] if file.is_file() and is_known else [f"{page.name}: {target}"]

    assert len(found) > 100
    assert sorted({*broken}) == []
    assert loaded == set()


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    loads = re.compile(r'<(?:script|img|source|link)\b[^>]*(?:src|href|srcset)="(https?://[^"]+)"')
    loaded = {
        (page.name, url)
        for page in site.rglob("*.html")
        for tag in re.findall(r"<[^>]+>", page.read_text(encoding="utf-8"))
        for url in loads.findall(tag)
        if 'rel="canonical"' not in tag
    }

    assert loaded == set()


def test_links_of_the_summary_for_models_lead_to_pages() -> None:
    summary = (ROOT / "llms.txt").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", summary)

    assert {f"docs/{page}" for page in PATH} <= set(links)
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 500


def words_of(page: Path) -> int:
    """Return the words of a page, also of its tables and code: texts with a letter or a digit.

    Blocks that a command prints do not count.
    """
    content = PRINTED_BLOCK.sub("", page.read_text(encoding="utf-8"))
    return sum(any(character.isalnum() for character in text) for text in content.split())


def test_the_written_pages_are_short() -> None:
    """Decisions, pages that are printed from the code, and tables of a standard do not count."""
    written = [page for page in pages_of(CONFIG["nav"]) if page.endswith(".md")]
    counts = {
        page: words_of(ROOT / "docs" / page)
        for page in written
        if page not in PRINTED | LOOKED_UP and not page.startswith("adr/")
    }

    assert sum(counts.values()) <= MOST_WORDS, sorted(counts.items(), key=lambda item: -item[1])
