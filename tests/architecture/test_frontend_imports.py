"""Folders of the dashboard: a page imports no other page, and shared parts import no page."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).resolve().parents[2] / "frontend/src"
IMPORTED: Final = re.compile(r"(?:\bfrom|\bimport\(?)\s*\"(@/[^\"]+|\.{1,2}/[^\"]+)\"")
# They load the pages, and request their data while the code loads.
FRAME: Final = {"router.tsx", "shell"}
# Routes below that of a run.
WITHIN: Final = {"viewer": "run"}
# To be mended: the wall drafts rules of alerts, and orders metrics as a run does.
LEFT_SHARED: Final = {"wall"}
# To be mended: rules of alerts are drafted at charts, and Compare orders metrics as a run does.
LEFT: Final = {
    ("compare", "alerts"),
    ("compare", "run"),
    ("run", "alerts"),
}


def page_of(path: str) -> str | None:
    """Return the page to which a path below ``src`` belongs."""
    parts = path.split("/")
    if parts[0] != "pages" or len(parts) < 3:
        return None
    return WITHIN.get(parts[1], parts[1])


def imports() -> Iterator[tuple[str, str]]:
    """Yield the path of each file and of what it imports, below ``src``."""
    for path in sorted(SOURCE.rglob("*.ts*")):
        if ".test." in path.name or path.name == "schema.d.ts":
            continue
        for name in IMPORTED.findall(path.read_text()):
            at = SOURCE / name[2:] if name.startswith("@/") else (path.parent / name).resolve()
            if at.is_relative_to(SOURCE):
                yield str(path.relative_to(SOURCE)), str(at.relative_to(SOURCE))


def test_a_page_imports_no_other_page() -> None:
    found = {
        (page, other): f"{path} imports {name}"
        for path, name in imports()
        if (page := page_of(path)) and (other := page_of(name)) and page != other
    }

    assert {pair: words for pair, words in found.items() if pair not in LEFT} == {}


def test_shared_parts_import_no_page() -> None:
    found = [
        f"{path} imports {name}"
        for path, name in imports()
        if not path.startswith("pages/")
        and path.split("/")[0] not in FRAME | LEFT_SHARED
        and page_of(name)
    ]

    assert found == []


def test_the_pages_are_found() -> None:
    pairs = list(imports())

    assert ("pages/runs/RunsPage.tsx", "runs/RunList") in pairs
    assert page_of("pages/run/queue/QueueTab") == page_of("pages/viewer/ViewerPage") == "run"
    assert page_of("pages/code") is None
