"""Screenshots of every page on a server whose clock stands still, in two themes and two widths."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from playwright.sync_api import Browser, BrowserContext, Locator, Page

from tests import processes
from tests.e2e import pages, pictures
from tests.e2e.conftest import CHROMIUM, FLAGS, USERNAME, sign_in_anew
from tests.e2e.frozen_server import AT
from tests.e2e.page_places import name_of, place_of
from tests.e2e.pictures import Pixels
from tests.server import ROOT, Server, environment, free_port, wait_until

SNAPSHOTS: Final = ROOT / "tests" / "e2e" / "snapshots"
START_SECONDS: Final = 180.0
FONTS: Final = {"Inter", "DejaVu Sans", "DejaVu Sans Mono"}
"""Families of the bundled typeface and of the only fonts in this browser, from matplotlib."""
# Software rendering in the same way on every processor, without subpixels of a certain display.
RENDERING: Final = [
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--force-color-profile=srgb",
    "--disable-skia-runtime-opts",
]
POLL_MS: Final = 250
STILL_SECONDS: Final = 2.0
"""A page that has not changed for as long is complete."""
LONGEST_SECONDS: Final = 30.0
ADDRESS: Final = "http://localhost"
"""Address of the server in the browser, which maps it to the port; pages show it."""
# Figures of the real machine: its disks, the database's files, and the memory of the broker.
LIVE: Final = {
    "cluster": ", ".join(f'section[aria-label="{title}"]' for title in ("Machines", "Services"))
}


class Variant(NamedTuple):
    """A theme and a size of the window."""

    theme: str
    width: int
    height: int

    @property
    def name(self) -> str:
        return f"{self.theme}-{self.width}"


# Neighbours differ in one property, so that the page changes little between two screenshots.
VARIANTS: Final = (
    Variant("light", 1440, 900),
    Variant("dark", 1440, 900),
    Variant("dark", 390, 844),
    Variant("light", 390, 844),
)


def accepted(address: str, variant: Variant) -> Path:
    """Return the path of the accepted picture of a page."""
    return SNAPSHOTS / f"{name_of(address)}-{variant.name}.png"


@contextmanager
def frozen_server(var: Path) -> Iterator[Server]:
    """Start the server whose clock stands still, with the recorded runs."""
    port = free_port()
    var.mkdir(parents=True, exist_ok=True)
    with (var / "up.log").open("ab") as log:
        process = processes.start(
            [sys.executable, "-m", "tests.e2e.frozen_server", str(var), str(port)],
            cwd=ROOT,
            env=environment(var, port, PYTHONPATH=".:platform:client", ROLLDECK_PUBLIC_URL=ADDRESS),
            stdout=log,
            stderr=log,
        )
    server = Server(var, port, process)
    try:
        wait_until(server.is_ready, seconds=START_SECONDS, what="the server is ready")
        yield server
    finally:
        server.http.close()
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def font_settings(folder: Path) -> Path:
    """Write a configuration of fontconfig in which only the fonts of matplotlib exist."""
    package = importlib.util.find_spec("matplotlib")
    assert package is not None, "matplotlib is missing: make setup"
    assert package.submodule_search_locations
    source = Path(package.submodule_search_locations[0], "mpl-data", "fonts", "ttf")
    fonts = folder / "fonts"
    fonts.mkdir()
    for font in source.glob("DejaVuSans*.ttf"):
        if "Display" not in font.name:
            shutil.copy(font, fonts)
    settings = folder / "fonts.conf"
    settings.write_text(
        f"""<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{fonts}</dir>
  <cachedir>{folder / "cache"}</cachedir>
  <match target="pattern">
    <edit name="family" mode="append" binding="weak"><string>DejaVu Sans</string></edit>
  </match>
  <match target="font">
    <edit name="antialias" mode="assign"><bool>true</bool></edit>
    <edit name="hinting" mode="assign"><bool>false</bool></edit>
    <edit name="rgba" mode="assign"><const>none</const></edit>
  </match>
</fontconfig>
"""
    )
    return settings


class Gallery:
    """A browser with fixed fonts, time and language, and one signed-in page."""

    def __init__(self, browser: Browser, server: Server) -> None:
        self.server = server
        self.browser = browser
        self._contexts: dict[bool, BrowserContext] = {}
        self.page = self._new_page()
        sign_in_anew(self.page, USERNAME)
        server.get("/api/v1/runs")  # the page of tokens shows the use of this client's token
        self._stranger = self._new_page()

    def _new_page(self) -> Page:
        context = self.browser.new_context(
            base_url=ADDRESS,
            viewport={"width": 1440, "height": 900},
            device_scale_factor=1,
            color_scheme="light",
            reduced_motion="reduce",
            timezone_id="UTC",
            locale="en-GB",
        )
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.clock.set_fixed_time(AT)
        return page

    def new_page(self) -> Page:
        """Return another page of the signed-in user."""
        page = self.page.context.new_page()
        page.clock.set_fixed_time(AT)
        return page

    def open(self, address: str) -> Page:
        """Open a page and wait until it has loaded its data."""
        page = self._stranger if address == "/login" else self.page
        self.show(page, VARIANTS[0])
        page.goto(place_of(address, self.server))
        pages.settle(page)
        page.wait_for_load_state("networkidle")
        return page

    def show(self, page: Page, variant: Variant) -> None:
        """Change the theme and the size of the window."""
        page.emulate_media(color_scheme=variant.theme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": variant.width, "height": variant.height})

    def take(self, page: Page, address: str, *, expected: Pixels | None) -> Pixels:
        """Take a screenshot that equals the expected one, or that has stopped changing."""
        last, began = self._screenshot(page, address), time.monotonic()
        still_since = began
        while (now := time.monotonic()) - began < LONGEST_SECONDS:
            if expected is not None and not pictures.compare(expected, last).is_too_large:
                return last
            if now - still_since > STILL_SECONDS:
                return last
            page.wait_for_timeout(POLL_MS)
            newest = self._screenshot(page, address)
            if pictures.compare(last, newest).fraction > 0:
                still_since = time.monotonic()
            last = newest
        return last

    def _screenshot(self, page: Page, address: str) -> Pixels:
        masks = masked(page, address)
        return pictures.read(
            page.screenshot(animations="disabled", mask=masks, mask_color="#808080")
        )


def masked(page: Page, address: str) -> list[Locator]:
    """Return the parts of a page that show the real machine."""
    selector = LIVE.get(name_of(address))
    return [page.locator(selector)] if selector else []


@contextmanager
def opened_gallery(chromium: Browser, folder: Path) -> Iterator[Gallery]:
    """Start the server and a second browser, whose fonts do not depend on the machine."""
    with ExitStack() as stack:
        server = stack.enter_context(frozen_server(folder / "server"))
        loopback = f"127.0.0.1:{server.port}"
        own: dict[str, Any] = {**os.environ, "FONTCONFIG_FILE": str(font_settings(folder))}
        browser = chromium.browser_type.launch(
            executable_path=CHROMIUM,
            args=[*FLAGS, *RENDERING, f"--host-resolver-rules=MAP localhost:80 {loopback}"],
            env=own,
        )
        stack.callback(browser.close)
        yield Gallery(browser, server)
