"""Addresses of pages with the sample objects that show most of them, and names of pictures."""

import re
from typing import Final
from urllib.parse import quote

from tests.e2e import pages
from tests.server import Server

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
    "/runs/$name/weights": f"{LIVE}/weights",
    "/runs/$name/queue": "/runs/seed-atropos-mix/queue",
    "/runs/$name/environments": "/runs/seed-atropos-mix/environments",
}
NAMES: Final = {"/": "home", "/runs/$name": "run-page", "/runs/new": "launch", "/login": "login"}


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
