"""Addresses of every page on the server with the recorded runs, and the names of their pictures."""

import re
from typing import Final
from urllib.parse import quote

from tests.e2e import pages
from tests.recorded_runs.names import FAILED, LANGUAGE, LIVE, MIXED, PAUSED, SWEEP
from tests.server import Server

RECORDED: Final = pages.Samples(LANGUAGE, LIVE)
# Best run for each tab; all other tabs use the language run, which has every tab.
BETTER: Final = {
    "/compare": f"/compare?runs={SWEEP[0]},{SWEEP[1]},{LIVE},{PAUSED},{FAILED}",
    "/trajectories": f"/trajectories?q=run:{MIXED}&sort=-score",
    "/runs/$name": f"/runs/{LIVE}",
    "/runs/$name/metrics": f"/runs/{LIVE}/metrics",
    "/runs/$name/fleet": f"/runs/{LIVE}/fleet",
    "/runs/$name/weights": f"/runs/{LIVE}/weights",
    "/runs/$name/queue": f"/runs/{MIXED}/queue",
    "/runs/$name/environments": f"/runs/{MIXED}/environments",
    "/runs/$name/trajectories": f"/runs/{MIXED}/trajectories",
}
NAMES: Final = {"/runs/$name": "run-page", "/runs/new": "launch", "/login": "login"}


def place_of(address: str, server: Server) -> str:
    """Return the address of a page with the recorded objects that show most of it."""
    if address == "/runs/$name/groups/$group":
        # Its messages have a tool call and its result.
        called = server.get(f"/api/v1/trajectories?run={MIXED}&q=weather&limit=1")["results"]
        return f"/runs/{MIXED}/groups/{called[0]['id']}"
    place = BETTER.get(address) or pages.at(address, server, RECORDED)
    if address != "/runs/$name/transcript":
        return place
    fragments = f"/api/v1/runs/{LIVE}/fragments"
    newest = pages.newest(server, "fragments", run=LIVE)
    episodes = server.get(f"{fragments}/{newest}")["content"]["episodes"]
    return f"/runs/{LIVE}/transcript?episode={quote(episodes[0]['id'])}"


def name_of(address: str) -> str:
    """Return a name for a page: ``run-metrics`` for ``/runs/$name/metrics``."""
    if address in NAMES:
        return NAMES[address]
    words = [word for word in re.split(r"[/$]+", address.replace("/runs/$name", "/run")) if word]
    return "-".join(words)
