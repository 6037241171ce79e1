"""Licenses of Rolldeck and of its installed dependencies."""

import json
import re
from collections.abc import Iterator, Set
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final, Literal

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Struct
from rest_framework.request import Request

from config.versions import OURS
from runs.access.api.permissions import Known
from web.http.bodies import answer
from web.http.views import ApiView
from web.rules.pages import Page

UNKNOWN: Final = "not declared"
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?")
_ONLY_FOR: Final = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_CLASSIFIER: Final = "License :: OSI Approved :: "
_FOR_DEVELOPERS: Final = frozenset({"dev"})


class Licensed(Struct, frozen=True, kw_only=True):
    """One package."""

    name: str
    version: str
    licence: str
    part: Literal["server", "dashboard"]
    """Where the package is used."""


class Licences(Page[Licensed], frozen=True, kw_only=True):
    """The license of Rolldeck, and those of the packages installed with it, by part and name.

    The dashboard's packages are listed in its built files.
    """

    own: str


class LicencesView(ApiView):
    """Licenses of Rolldeck and its dependencies."""

    permission_classes = [Known]

    @extend_schema(operation_id="licences_list", responses={200: Licences}, tags=["server"])
    def get(self, request: Request) -> HttpResponse:
        """List third-party licenses.

        Each installed package with the license that it declares, by part and name.
        """
        del request
        return answer(_licences())


@cache
def _licences() -> Licences:
    own = _found(OURS)
    return Licences(
        own=UNKNOWN if own is None else _licence(own),
        results=[
            *_server_packages(),
            *_dashboard_packages(settings.FRONTEND_DIST / "licences.json"),
        ],
        next=None,
    )


def _server_packages() -> list[Licensed]:
    """Return all direct and indirect dependencies that are installed."""
    ours = _found(OURS)
    extras: set[str] = set()
    if ours is not None:
        extras.update(ours.metadata.get_all("Provides-Extra") or [])
    left = [(OURS, frozenset(extras - _FOR_DEVELOPERS))]
    known: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    while left:
        package = left.pop()
        found = None if package in seen else _found(package[0])
        seen.add(package)
        if found is not None:
            known[package[0]] = found
            left += _needs(found, extras=package[1])
    known.pop(OURS, None)
    return [
        Licensed(name=name, version=one.version, licence=_licence(one), part="server")
        for name, one in sorted(known.items())
    ]


def _needs(found: Distribution, *, extras: Set[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield a package's dependencies for the given extras, with the extras of each."""
    for line in found.requires or []:
        match = _REQUIREMENT.match(line)
        only = set(_ONLY_FOR.findall(line))
        if match is not None and (not only or only & extras):
            more = (match[2] or "").split(",")
            yield _plain(match[1]), frozenset(name.strip() for name in more if name.strip())


def _dashboard_packages(path: Path) -> list[Licensed]:
    """Return the packages built into the dashboard; empty if it was not built."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [Licensed(**row, part="dashboard") for row in rows]


def _found(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _licence(found: Distribution) -> str:
    """Return the license in the shortest form that the package declares."""
    about = found.metadata
    for expression in about.get_all("License-Expression") or []:
        return str(expression)
    classes = [
        line.removeprefix(_CLASSIFIER)
        for line in about.get_all("Classifier") or []
        if line.startswith(_CLASSIFIER)
    ]
    if classes:
        return ", ".join(classes)
    # Some packages put the whole license text here.
    for text in about.get_all("License") or []:
        return str(text).strip().split("\n")[0][:80] or UNKNOWN
    return UNKNOWN


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
