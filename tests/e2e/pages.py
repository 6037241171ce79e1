"""Every page of the dashboard, from the dashboard's own table of routes."""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from playwright.sync_api import Page, expect

from tests.e2e.conftest import complaints_of
from tests.server import ROOT, Server

ROUTER: Final = ROOT / "frontend" / "src" / "router.tsx"
AXE: Final = ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
WCAG: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
COLOURS: Final = {"type": "rule", "values": ["color-contrast"]}


class Samples(NamedTuple):
    """Names of the objects that pages show on a server."""

    language: str
    """A language run has every tab."""
    fleet: str
    """Only a run that steps environments has fragments."""


SEEDED: Final = Samples("seed-reverse-lessons", "seed-cartpole-live")
RUN: Final = SEEDED.language
_ROUTE: Final = re.compile(
    r"(?:const (?P<name>\w+) = )?createRoute\(\{\s*"
    r"getParentRoute: \(\) => (?P<parent>\w+),\s*"
    r'(?:path: "(?P<path>[^"]*)"|id: "\w+")'
)
# Values for the parameters of addresses; a page with a new parameter needs an entry here.
SAMPLES: Final[dict[str, Callable[[Server, Samples], str]]] = {
    "name": lambda _, samples: samples.language,
    "group": lambda server, samples: newest(server, "groups", run=samples.language),
    "groupId": lambda server, samples: newest(server, "groups", run=samples.language),
    "fragment": lambda server, samples: newest(server, "fragments", run=samples.fleet),
    "batch": lambda server, samples: newest(server, "batches", run=samples.language),
    "lesson": lambda *_: "reverse-4-letters",
}


class Reader:
    """A signed-in user's page and its console errors and warnings so far."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints = complaints_of(page)

    def opens(self, place: str) -> Page:
        self.complaints.clear()
        self.page.emulate_media(color_scheme="dark")
        self.page.set_viewport_size({"width": 1440, "height": 900})
        self.page.goto(place)
        settle(self.page)
        return self.page


def addresses() -> list[str]:
    """Return the address of every route that shows a page, parameters as ``$name``."""
    places: dict[str, str] = {"root": ""}
    paths: list[str] = []
    code = ROUTER.read_text(encoding="utf-8")
    for route in _ROUTE.finditer(code):
        parent = places.get(route["parent"], "")
        path = (route["path"] or "").strip("/")
        place = f"{parent}/{path}" if path else parent
        if route["name"]:
            places[route["name"]] = place
        is_redirect = "redirect(" in code[route.end() :].partition("createRoute(")[0]
        if route["path"] is not None and not is_redirect:
            paths.append(place)
    assert len(paths) >= 10, "the table of routes is written in a way that this does not read"
    return sorted({*paths})


def at(address: str, server: Server, samples: Samples = SEEDED) -> str:
    """Return an address with an object of the server for each parameter."""
    if "$fragment" in address:
        address = address.replace("$name", samples.fleet)
    return re.sub(r"\$(\w+)", lambda parameter: SAMPLES[parameter[1]](server, samples), address)


def newest(server: Server, kind: str, *, run: str) -> str:
    """Return the id of the newest item of a run whose bytes were stored."""
    place = f"/api/v1/trajectories?run={run}&kind={kind.removesuffix('s')}&limit=50"
    rows: list[dict[str, Any]] = server.get(place)["results"]
    return str(next(row["id"] for row in rows if row["kind"] != "group" or row["scores"]))


def settle(page: Page) -> None:
    """Wait until a page shows its first heading and no loading placeholders."""
    page.get_by_role("heading", level=1).first.wait_for()
    expect(page.locator(".mantine-Skeleton-root")).to_have_count(0)


def wait_for_width(page: Page, pixels: int) -> None:
    """Wait until a page is no wider than `pixels`; charts follow their container with a delay."""
    page.wait_for_function("most => document.documentElement.scrollWidth <= most", arg=pixels)


def barriers(page: Page, *, rules: Any = WCAG, within: str = "html") -> list[str]:
    """Return the serious and critical accessibility violations that axe finds.

    Args:
        page: Settled page.
        rules: Rules that axe runs; all of WCAG 2.2 AA by default.
        within: Selector of the part of the page to check.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))  # the content policy forbids script tags
    violations = page.evaluate(
        """([rules, within]) => axe.run(within, {
            runOnly: rules, resultTypes: ["violations"],
        }).then((result) => result.violations
            .filter((one) => ["serious", "critical"].includes(one.impact))
            .flatMap((one) => one.nodes.slice(0, 3).map((node) =>
                `${one.id} at ${node.html.slice(0, 200)}: ${node.failureSummary}`)))""",
        [rules, within],
    )
    return [re.sub(r"\s+", " ", str(value)) for value in violations]


def points(page: Page, chart: str) -> int:
    locator = page.locator(f'[data-points][aria-label^="{chart}"]')
    return int(locator.get_attribute("data-points") or 0)


def open_tab(page: Page, tab: str, name: str = "") -> None:
    """Open a tab of a run, and the page `name` in it."""
    tabs = page.get_by_role("navigation", name="Tabs of")
    tabs.get_by_role("link", name=tab, exact=True).click()
    if name:
        pages = page.get_by_role("navigation", name=tab, exact=True)
        pages.get_by_role("link", name=name, exact=True).click()
