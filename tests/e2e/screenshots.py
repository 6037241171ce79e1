"""Take the screenshots of the docs: every page on seeded data, in both themes, in Chromium.

``make pictures`` writes them into docs/images. The same data gives the same screenshots: random
values derive from the runs' names, the page's clock stands still, and animations are off. Only
figures of the live fleet vary.
"""

import re
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote

from playwright.sync_api import Browser, Page, sync_playwright

from tests.e2e import pages
from tests.e2e.conftest import CHROMIUM, FLAGS, USERNAME, create_superuser, seeded, sign_in
from tests.server import ROOT, Server, running_server, wait_until

IMAGES: Final = ROOT / "docs" / "images"
WIDTH: Final = 1440
TALLEST: Final = 1600
"""Maximum height of a screenshot in pixels."""
LIVE: Final = "/runs/seed-cartpole-live"
# Best run for each tab; all other tabs use the language run, which has every tab.
BETTER: Final = {
    "/compare": "/compare?runs=seed-cartpole-live,seed-cartpole-paused,seed-cartpole-failed",
    "/trajectories": "/trajectories?runs=seed-atropos-mix&sort=score",
    "/runs/$name": LIVE,
    "/runs/$name/metrics": f"{LIVE}/metrics",
    "/runs/$name/fleet": f"{LIVE}/fleet",
    "/runs/$name/episodes": f"{LIVE}/episodes",
    "/runs/$name/pipeline": f"{LIVE}/pipeline",
    "/runs/$name/queue": "/runs/seed-atropos-mix/queue",
    "/runs/$name/environments": "/runs/seed-atropos-mix/environments",
}
NAMES: Final = {"/": "home", "/runs/$name": "run-page", "/runs/new": "launch", "/login": "login"}


def main() -> None:
    """Seed a server and take every screenshot, or only those whose names are given."""
    folder = Path(tempfile.mkdtemp(prefix="rolldeck-pictures"))
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
        page.screenshot(path=IMAGES / f"{name}{'-dark' if scheme == 'dark' else ''}.png")
    context.close()


def place_of(address: str, server: Server) -> str:
    """Return the address of a page with the sample objects that show most of it."""
    place = BETTER.get(address) or pages.at(address, server)
    if address != "/runs/$name/transcript":
        return place
    fragments = f"/api/v1{LIVE}/fragments"
    newest = server.get(f"{fragments}?limit=1")["results"][0]["id"]
    episodes = server.get(f"{fragments}/{newest}")["content"]["episodes"]
    return f"{LIVE}/transcript?episode={quote(episodes[0]['id'])}"


def name_of(address: str) -> str:
    """Return a name for a page: ``run-metrics`` for ``/runs/$name/metrics``."""
    if address in NAMES:
        return NAMES[address]
    words = [word for word in re.split(r"[/$]+", address.replace("/runs/$name", "/run")) if word]
    return "-".join(words)


def picture(page: Page, place: str) -> None:
    """Take a screenshot of a page at its full height, between 600 and `TALLEST` pixels."""
    page.set_viewport_size({"width": WIDTH, "height": 900})
    page.goto(place)
    pages.settle(page)
    page.wait_for_timeout(2_500)  # charts draw, and series that start with the page get points
    height = int(page.evaluate("document.documentElement.scrollHeight"))
    page.set_viewport_size({"width": WIDTH, "height": min(max(height, 600), TALLEST)})
    page.wait_for_timeout(500)


if __name__ == "__main__":
    main()
