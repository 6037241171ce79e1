"""The documentation states the effect of a repetition for every writing route."""

import re
from pathlib import Path

from tests.rights_table import ROWS

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/idempotency.md"


def test_every_route_documents_its_idempotency() -> None:
    routes = {
        method + " " + re.sub(r"<[a-z]+:([a-z_]+)>", r"{\1}", address.removeprefix("/api/v1/"))
        for method, address in ROWS
        if method != "GET" and address.startswith("/api/")
    }
    described = set(re.findall(r"`((?:POST|PATCH|PUT|DELETE) [^`]+)`", PAGE.read_text()))

    assert sorted(routes - described) == []
