"""Take the screenshots of the docs on the recorded runs, in both themes, in Chromium.

``make pictures`` writes them into docs/images: every page, and the states of pages that no address
has. The same recording gives the same screenshots: the clocks of the server and of the page stand
still, and animations are off. Only figures of the machine vary.
"""

import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, sync_playwright

from tests.e2e import pages
from tests.e2e.conftest import CHROMIUM, FLAGS
from tests.e2e.gallery import VARIANTS, Gallery, Variant, opened_gallery
from tests.e2e.page_places import name_of
from tests.e2e.page_states import STATES
from tests.server import ROOT

IMAGES: Final = ROOT / "docs" / "images"
THEMES: Final = VARIANTS[:2]
UNUSED: Final = ("login",)
"""Pages that the docs do not show."""
TALLEST: Final = 1600
"""Maximum height of a screenshot in pixels."""
SETTLE_MS: Final = 2_500


def main() -> None:
    """Take every screenshot, or only those whose names are given."""
    chosen = sys.argv[1:]
    names = {name_of(address): address for address in pages.addresses()}
    wanted = chosen or [name for name in [*names, *STATES] if name not in UNUSED]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        with opened_gallery(browser, Path(folder)) as gallery:
            for name, address in names.items():
                if name in wanted:
                    take_page(gallery, address)
            # Last, because they change the server.
            for name in STATES:
                if name in wanted:
                    take_state(gallery, name)
        browser.close()


def take_page(gallery: Gallery, address: str) -> None:
    """Take a page at its full height, between 600 and `TALLEST` pixels."""
    page = gallery.open(address)
    for variant in THEMES:
        gallery.show(page, variant)
        page.wait_for_timeout(SETTLE_MS)  # charts draw
        height = int(page.evaluate("document.documentElement.scrollHeight"))
        page.set_viewport_size({"width": variant.width, "height": min(max(height, 600), TALLEST)})
        page.wait_for_timeout(SETTLE_MS)
        page.screenshot(path=path_of(name_of(address), variant), animations="disabled")


def take_state(gallery: Gallery, name: str) -> None:
    """Take a page, or a part of it, in a certain state."""
    with STATES[name](gallery) as part:
        page = part if isinstance(part, Page) else part.page
        for variant in THEMES:
            gallery.show(page, variant)
            page.wait_for_timeout(SETTLE_MS)
            part.screenshot(path=path_of(name, variant), animations="disabled")


def path_of(name: str, variant: Variant) -> Path:
    """Return the path of a picture."""
    return IMAGES / f"{name}{'-dark' if variant.theme == 'dark' else ''}.png"


if __name__ == "__main__":
    main()
