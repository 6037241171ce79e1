"""A run exported as one file, which opens from disk without a network or a server."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e import pages
from tests.e2e.pushed_groups import HOSTILE, UNSEEN, conversation, outside_run, push
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

RUN = "taken-along"
SPIKE = 1234.5


@pytest.fixture(scope="module")
def group(server: Server) -> int:
    outside_run(server, RUN)
    # One high value among thousands, which downsampling must keep.
    values = [SPIKE if step == 777 else 1 / (step + 1) for step in range(3000)]
    for begin in range(0, len(values), 1000):
        samples = [
            {"name": "loss", "step": step, "value": values[step]}
            for step in range(begin, begin + 1000)
        ]
        server.post(f"/api/v1/runs/{RUN}/metrics", {"samples": samples})
    server.post(
        f"/api/v1/runs/{RUN}/metrics", {"samples": [{"name": "lr", "step": 3, "value": 0.25}]}
    )
    (group_id,) = push(
        server, RUN, conversation(HOSTILE, UNSEEN, "that", scores=[0.0, 1.0], lesson="evil")
    )
    return group_id


@pytest.fixture
def copy(signed_in: Page, group: int, tmp_path: Path) -> Path:
    """The file that a user exports from the run's page."""
    signed_in.goto(f"/runs/{RUN}/config")
    panel = signed_in.get_by_role("region", name="Export")
    panel.get_by_label("Groups to include").fill("5")
    with signed_in.expect_download() as download:
        panel.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == f"{RUN}.html"
    target = tmp_path / "copy.html"
    download.value.save_as(target)
    return target


def test_the_offline_copy_equals_the_page_of_the_server(
    copy: Path, offline: Page, server: Server, group: int
) -> None:
    page = offline
    page.goto(copy.as_uri())

    expect(page.get_by_role("heading", level=1)).to_have_text(RUN)
    expect(page.locator("[data-status=running]")).to_be_visible()
    row = page.get_by_role("table", name="Ledger").get_by_role("row").nth(1)
    ledger = server.get(f"/api/v1/runs/{RUN}/ledger")["groups"]
    expect(row.get_by_role("cell").nth(1)).to_have_text(f"{ledger['accepted']:,}")
    expect(row).to_contain_text("adds up")

    chart = page.locator("[data-metric=loss]")
    chart.scroll_into_view_if_needed()
    expect(chart.locator("path.band")).to_have_count(1)
    assert float(chart.get_attribute("data-max") or 0) == SPIKE
    assert float(chart.get_attribute("data-last") or 0) == pytest.approx(1 / 3000)
    expect(chart).to_contain_text("3,000 samples")
    page.get_by_label("Metrics that contain").fill("lr")
    expect(chart).to_be_hidden()
    expect(page.locator("[data-metric=lr]")).to_contain_text("last 0.25")

    # A link to one group.
    page.goto(f"{copy.as_uri()}#group-{group}")
    page.reload()
    first = page.get_by_label("Sequence 0", exact=True)
    expect(first.get_by_label("Message 1, user")).to_contain_text(HOSTILE)
    expect(first.get_by_label("Message 2, assistant")).to_contain_text("⟨U+202E⟩gnp.exe")
    first.get_by_text("Tokens of sequence 0").click()
    expect(first.locator(".tokens span")).to_have_count(5)
    expect(first.locator(".tokens .own")).to_have_count(2)
    assert page.title() == f"{RUN} · Rolldeck"
    assert page.locator("main img, main script").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_copy_is_accessible(copy: Path, offline: Page, group: int, scheme: str) -> None:
    page = offline
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(f"{copy.as_uri()}#group-{group}")
    page.get_by_text("Tokens of sequence 0").click()

    assert pages.barriers(page) == []
    page.set_viewport_size({"width": 360, "height": 740})
    pages.wait_for_width(page, 360)


def test_a_truncated_copy_is_reported(copy: Path, offline: Page) -> None:
    whole = copy.read_text(encoding="utf-8")
    cut = whole[: whole.index('<script type="application/json" data-part="end">')]
    copy.write_text(cut, encoding="utf-8")
    offline.goto(copy.as_uri())

    expect(offline.get_by_role("alert")).to_contain_text("The file is incomplete")
    expect(offline.locator("[data-metric=loss]")).to_be_attached()


def test_scripts_in_messages_are_text(copy: Path) -> None:
    text = copy.read_text(encoding="utf-8")
    blocks = re.findall(r'data-part="group">(.*?)</script>', text)

    assert len(blocks) == 1
    message = json.loads(blocks[0])["sequences"][0]["conversation"]["results"][0]["parts"][0]
    assert message["text"] == HOSTILE
    assert HOSTILE not in text
