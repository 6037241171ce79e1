"""Take the pictures of the docs: a real run that learns, seen in a real Chromium.

``PYTHONPATH=.:platform:client python -m tests.e2e.pictures`` writes them into docs/images.
"""

import tempfile
import time
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

from tests.deck import ROOT, Deck, running_deck, wait_until
from tests.e2e.conftest import CHROMIUM, FLAGS, USERNAME, create_superuser, sign_in

IMAGES: Final = ROOT / "docs" / "images"
RUN: Final = "cartpole-ppo"
LEARNS_WITHIN_SECONDS: Final = 300.0
GOOD_RETURN: Final = 150.0


def main() -> None:
    """Launch a run, let it learn, and take every picture."""
    folder = Path(tempfile.mkdtemp(prefix="rolldeck-pictures"))
    with running_deck(folder) as deck, sync_playwright() as playwright:
        create_superuser(deck)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        deck.post("/api/runs", {"name": RUN, "preset": "cartpole", "start": True})
        trainer = deck.start_trainer(RUN)
        try:
            wait_until(
                lambda: recent_return(deck) > GOOD_RETURN,
                seconds=LEARNS_WITHIN_SECONDS,
                what="the policy learns",
                every=2.0,
            )
            take(deck, browser)
        finally:
            trainer.terminate()
            trainer.wait(10)
            browser.close()


def recent_return(deck: Deck) -> float:
    """Return the mean of the run's last training returns; 0 before the first."""
    rows = deck.get(f"/api/runs/{RUN}/episodes?limit=1")["results"]
    return float(rows[-1]["recent_return_mean"] or 0.0) if rows else 0.0


def take(deck: Deck, browser: Browser) -> None:
    """Take the pictures, each once its page has settled."""
    page = opened(browser, deck, "light")
    picture(page, f"/runs/{RUN}", "run-page")
    picture(page, "/runs", "runs", height=500)
    picture(page, "/runs/new", "launch")
    picture(opened(browser, deck, "dark"), f"/runs/{RUN}", "run-page-dark")


def opened(browser: Browser, deck: Deck, scheme: str) -> Page:
    """Return a page of somebody who has signed in."""
    context = browser.new_context(
        base_url=deck.url,
        viewport={"width": 1440, "height": 900},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    context.set_default_timeout(30_000)
    return sign_in(context.new_page(), USERNAME)


def picture(page: Page, place: str, name: str, *, height: int = 900) -> None:
    """Write one picture."""
    page.set_viewport_size({"width": 1440, "height": height})
    page.goto(place)
    page.get_by_role("heading", level=1).wait_for()
    time.sleep(20 if place.endswith(RUN) else 3)  # what begins with the page gets its first points
    page.screenshot(path=IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
