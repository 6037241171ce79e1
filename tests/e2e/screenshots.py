"""Take the screenshots of the docs: every page on seeded data, in both themes, in Chromium.

``make pictures`` writes them into docs/images. The same data gives the same screenshots: random
values derive from the runs' names, the page's clock stands still, and animations are off. Only
figures of the live fleet vary.
"""

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

from tests.e2e import pages
from tests.e2e.conftest import CHROMIUM, FLAGS, USERNAME, create_superuser, seeded, sign_in
from tests.e2e.gallery import VARIANTS, opened_gallery
from tests.e2e.page_places import name_of, place_of
from tests.e2e.page_states import STATES
from tests.server import ROOT, Server, running_server, wait_until

IMAGES: Final = ROOT / "docs" / "images"
WIDTH: Final = 1440
TALLEST: Final = 1600
"""Maximum height of a screenshot in pixels."""
SETTLE_MS: Final = 2_500


def main() -> None:
    """Seed a server and take every screenshot, or only those whose names are given."""
    folder = Path(tempfile.mkdtemp(prefix="rolldeck-pictures"))
    chosen = sys.argv[1:]
    if states := [name for name in STATES if not chosen or name in chosen]:
        take_states(folder / "states", states)
    if chosen and set(chosen) <= STATES.keys():
        return
    with running_server(folder) as server, seeded(server), sync_playwright() as playwright:
        create_superuser(server)
        wait_until(
            lambda: server.get("/api/v1/cluster")["ray"]["state"] != "unknown",
            seconds=60,
            what="a worker has looked at the Ray cluster",
        )
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for scheme in ("light", "dark"):
            take_screenshots(server, browser, scheme)
        browser.close()


def take_states(folder: Path, names: list[str]) -> None:
    """Take the states of pages, on a server whose clock stands still."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        with opened_gallery(browser, folder) as gallery:
            for name in names:
                with STATES[name](gallery) as part:
                    page = part if isinstance(part, Page) else part.page
                    for variant in VARIANTS[:2]:
                        gallery.show(page, variant)
                        page.wait_for_timeout(SETTLE_MS)
                        part.screenshot(path=path_of(name, variant.theme), animations="disabled")
        browser.close()


def path_of(name: str, scheme: str) -> Path:
    """Return the path of a picture."""
    return IMAGES / f"{name}{'-dark' if scheme == 'dark' else ''}.png"


def take_screenshots(server: Server, browser: Browser, scheme: str) -> None:
    """Take the screenshots of one theme."""
    context = browser.new_context(
        base_url=server.url,
        viewport={"width": WIDTH, "height": 900},
        color_scheme=scheme,  # type: ignore[arg-type]
        reduced_motion="reduce",
        timezone_id="UTC",
        locale="en-GB",
    )
    context.set_default_timeout(60_000)
    page = sign_in(context.new_page(), USERNAME)
    page.clock.set_fixed_time(datetime.now(UTC))
    for address in pages.pictured():
        name = name_of(address)
        if address == "/login" or (sys.argv[1:] and name not in sys.argv[1:]):
            continue
        try:
            picture(page, place_of(address, server))
        except Exception as error:  # noqa: BLE001 one broken page must not cost the others
            print(f"{name}: {error}")  # noqa: T201 a command
        page.screenshot(path=path_of(name, scheme))
    context.close()


def picture(page: Page, place: str) -> None:
    """Take a screenshot of a page at its full height, between 600 and `TALLEST` pixels."""
    page.set_viewport_size({"width": WIDTH, "height": 900})
    page.goto(place)
    pages.settle(page)
    page.wait_for_timeout(SETTLE_MS)  # charts draw, and series that start with the page get points
    height = int(page.evaluate("document.documentElement.scrollHeight"))
    page.set_viewport_size({"width": WIDTH, "height": min(max(height, 600), TALLEST)})
    page.wait_for_timeout(500)


if __name__ == "__main__":
    main()
