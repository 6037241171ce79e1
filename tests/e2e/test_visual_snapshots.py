"""Every page looks as its accepted pictures, in both themes, on a wide screen and on a phone.

`make snapshots` stores the pages as they are; CONTRIBUTING.md describes it. A failed test writes
the expected and the actual picture and their difference into the folder of its message.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page

from tests.e2e import pages, pictures
from tests.e2e.gallery import (
    FONTS,
    SNAPSHOTS,
    VARIANTS,
    Gallery,
    accepted,
    opened_gallery,
)
from tests.e2e.page_places import name_of
from tests.e2e.pictures import Pixels

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

MAX_BYTES: Final = 6_000_000
"""All accepted pictures together; a change of every page adds as much to the repository."""
# Changes that a reader of the page would see.
STYLES: Final = {
    "a colour": "a { color: #808080 !important }",
    "a distance": "h1, h2, td { padding-left: 2px !important }",
    "a surface": ".mantine-Paper-root { background: transparent !important }",
}


@pytest.fixture(scope="module")
def gallery(chromium: Browser) -> Iterator[Gallery]:
    # The page of the cluster shows this path, so its length is the same in every run.
    with (
        tempfile.TemporaryDirectory(prefix="gallery-") as folder,
        opened_gallery(chromium, Path(folder)) as gallery,
    ):
        yield gallery


@pytest.fixture(scope="module")
def accepts(pytestconfig: pytest.Config) -> bool:
    """Whether this run stores the pages as they are."""
    return bool(pytestconfig.getoption("--accept-snapshots"))


@pytest.mark.parametrize("address", pages.addresses())
def test_a_page_looks_as_accepted(
    gallery: Gallery, address: str, accepts: bool, tmp_path: Path
) -> None:
    page = gallery.open(address)
    problems = []
    for variant in VARIANTS:
        gallery.show(page, variant)
        path = accepted(address, variant)
        expected = pictures.read(path) if path.is_file() else None
        actual = gallery.take(page, address, expected=expected)
        if expected is not None and not pictures.compare(expected, actual).is_too_large:
            continue
        if accepts:
            pictures.save(actual, path, browser=gallery.browser.version)
        else:
            problems.append(described(gallery, path, expected, actual, tmp_path))

    assert not problems, "\n".join([*problems, "make snapshots accepts the pages as they are"])


def described(
    gallery: Gallery, path: Path, expected: Pixels | None, actual: Pixels, folder: Path
) -> str:
    """Write the pictures of a difference and return a message with their folder."""
    Image.fromarray(actual).save(folder / f"{path.stem}-actual.png")
    if expected is None:
        return f"{path.name} does not exist; the page is in {folder}"
    difference = pictures.compare(expected, actual)
    Image.fromarray(expected).save(folder / f"{path.stem}-expected.png")
    difference.picture().save(folder / f"{path.stem}-difference.png")
    return (
        f"{path.name}: {difference.fraction:.3%} of the pixels differ, the limit is "
        f"{pictures.MAX_FRACTION:.3%}; accepted with Chromium {pictures.browser_of(path)}, this is "
        f"{gallery.browser.version}; pictures in {folder}"
    )


def test_every_accepted_picture_belongs_to_a_page(accepts: bool) -> None:
    pages_shown = {
        accepted(address, variant) for address in pages.addresses() for variant in VARIANTS
    }
    others = set(SNAPSHOTS.glob("*")) - pages_shown
    if accepts:
        for path in others:
            path.unlink()
        others = set()

    assert others == set()
    assert sum(path.stat().st_size for path in SNAPSHOTS.glob("*.png")) < MAX_BYTES


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES.keys())
def test_another_style_is_a_difference(gallery: Gallery, style: str) -> None:
    page = gallery.open("/runs")
    for variant in (VARIANTS[0], VARIANTS[2]):
        gallery.show(page, variant)
        before = gallery.take(page, "/runs", expected=None)
        element = page.add_style_tag(content=style)
        after = gallery.take(page, "/runs", expected=None)
        element.evaluate("(style) => style.remove()")

        assert pictures.compare(before, after).is_too_large, variant


@pytest.mark.parametrize("address", ["/runs", "/runs/$name/config"])
def test_a_page_uses_no_font_of_the_machine(gallery: Gallery, address: str) -> None:
    assert fonts_of(gallery.open(address)) == FONTS


def fonts_of(page: Page) -> set[str]:
    """Return the families of all fonts in which the page's text is drawn."""
    session = page.context.new_cdp_session(page)
    session.send("DOM.enable")
    session.send("CSS.enable")
    root = session.send("DOM.getDocument")["root"]["nodeId"]
    found = session.send("DOM.querySelectorAll", {"nodeId": root, "selector": "body *"})
    families = set()
    for node in found["nodeIds"]:
        used = session.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
        families.update(font["familyName"] for font in used)
    session.detach()
    return families


def test_a_failure_names_the_folder_with_its_pictures(gallery: Gallery, tmp_path: Path) -> None:
    page = gallery.open("/runs")
    actual = gallery.take(page, "/runs", expected=None)
    expected = actual.copy()
    expected[100:200, 100:200] = 128
    path = tmp_path / f"{name_of('/runs')}-light-1440.png"
    pictures.save(expected, path, browser="1.0")
    message = described(gallery, path, expected, actual, tmp_path)

    assert str(tmp_path) in message
    assert f"accepted with Chromium 1.0, this is {gallery.browser.version}" in message
    assert {file.name for file in tmp_path.iterdir()} - {path.name} == {
        f"runs-light-1440-{kind}.png" for kind in ("actual", "difference", "expected")
    }
