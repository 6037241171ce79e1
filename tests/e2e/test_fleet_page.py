"""A user reads a fleet's logs, requests recordings of episodes, and resizes the fleet.

The fleet is simulated, so that the test knows its reports. Server, socket and browser are real.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.pages import barriers, open_tab, wait_for_width
from tests.e2e.simulated_manager import SimulatedManager, simulated_manager, window
from tests.server import Server, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

# Possible output of an environment: markup, a direction override, escape sequences, a bell.
HOSTILE = (
    "<script>document.title='owned'</script><b id=hostile>seed</b>"
    " \u202egnp.exe\u202c \x1b[31mred\x1b[0m \x1b]0;title\x07 ding\x07"
)
SHOWN = "<script>document.title='owned'</script><b id=hostile>seed</b> ⟨U+202E⟩gnp.exe⟨U+202C⟩ red "


@pytest.fixture(scope="module")
def fleets(server: Server) -> "Iterator[Fleets]":
    with ExitStack() as open_ones:
        yield Fleets(server, open_ones)


class Fleets:
    """Provider of one fleet for the first attempt of every test, and a new one for each retry."""

    def __init__(self, server: Server, open_ones: ExitStack) -> None:
        self._server = server
        self._open = open_ones
        self._shared: SimulatedManager | None = None

    def of(self, test: pytest.FixtureRequest) -> SimulatedManager:
        if getattr(test.node, "execution_count", 1) > 1:
            return self._new()
        self._shared = self._shared or self._new()
        return self._shared

    def _new(self) -> SimulatedManager:
        return self._open.enter_context(
            simulated_manager(self._server, f"played-{uuid4().hex[:6]}")
        )


@pytest.fixture
def fleet(fleets: Fleets, request: pytest.FixtureRequest) -> SimulatedManager:
    return fleets.of(request)


@pytest.fixture
def run_page(signed_in: Page, fleet: SimulatedManager) -> Page:
    signed_in.goto(f"/runs/{fleet.name}/fleet")
    signed_in.locator("[data-worker='1']").wait_for()
    return signed_in


def stays_text(page: Page, shown: Locator) -> None:
    """Check that the hostile text is shown as text and had no effect."""
    expect(shown).to_contain_text(SHOWN)
    expect(page.locator("#hostile")).to_have_count(0)
    assert page.title() != "owned"


def test_the_log_of_a_worker_is_read_and_followed(run_page: Page, fleet: SimulatedManager) -> None:
    fleet.logs[0, None] = ["loading the policy", HOSTILE]
    run_page.get_by_role("link", name="Log of worker 0").click()
    panel = run_page.get_by_role("region", name="Log of worker 0")
    log = panel.get_by_label("Log, oldest line first")

    stays_text(run_page, log)
    expect(panel.locator("[data-log-status]")).to_contain_text("on node-a, /logs/w0.log")
    fleet.logs[0, None] = [*fleet.logs[0, None], "ready to act"]
    expect(log).to_contain_text("ready to act")

    panel.get_by_label("Search").fill("POLICY")
    expect(log).to_have_text("loading the policy\n")
    run_page.go_back()
    run_page.locator("[data-worker='0']").wait_for()


def test_the_log_of_a_slot_is_its_own(run_page: Page, fleet: SimulatedManager) -> None:
    fleet.logs[1, 2] = ["the env of slot 2", HOSTILE]
    run_page.get_by_role("button", name="Slots of worker 1").click()
    run_page.get_by_role("link", name="Log of slot 2").click()
    panel = run_page.get_by_role("region", name="Log of worker 1, slot 2")

    stays_text(run_page, panel.get_by_label("Log, oldest line first"))
    # The panel reports an empty log, and shows no lines of the previous one.
    panel.get_by_role("combobox", name="Process").click()
    run_page.get_by_role("option", name="worker 1, slot 3").click()
    other = run_page.get_by_role("region", name="Log of worker 1, slot 3")
    expect(other).to_contain_text("The log is empty.")
    expect(other).not_to_contain_text("the env of slot 2")


def test_a_log_is_filtered_by_level(run_page: Page, fleet: SimulatedManager) -> None:
    fleet.logs[None, None] = [
        "2026-11-22 10:00:01,000 INFO sent weights 4",
        f"    a line without a time {HOSTILE}",
        "2026-11-22 10:00:03,000 WARNING worker 1 is late",
    ]
    run_page.goto(f"/runs/{fleet.name}/logs?log=manager")
    panel = run_page.get_by_role("region", name="Log of manager")
    expect(panel).to_contain_text("sent weights 4")
    log = panel.get_by_label("Log, oldest line first")
    stays_text(run_page, log)
    panel.get_by_role("combobox", name="Level").click()
    run_page.get_by_role("option", name="warnings and errors").click()
    expect(log.locator("span")).to_have_text([re.compile("worker 1 is late")])


def test_a_recording_of_an_episode_is_requested_and_played(
    run_page: Page, fleet: SimulatedManager
) -> None:
    recordings = run_page.get_by_role("region", name="Recordings")
    recordings.get_by_role("button", name="Record", exact=True).click()
    dialog = run_page.get_by_role("dialog", name=f"Record episodes of {fleet.name}")
    dialog.get_by_role("combobox", name="Worker").click()
    run_page.get_by_role("option", name="worker 0", exact=True).click()
    dialog.get_by_label("Reason").fill("it falls to the left")
    dialog.get_by_role("button", name="Record").click()
    expect(recordings.locator("[data-recording=requested]")).to_be_visible()

    [order] = fleet.ordered(recordings=1)
    assert fleet.control is not None
    assert fleet.control.recordings[0].worker == 0
    fleet.update(order, "recording")
    expect(recordings.locator("[data-recording=recording]")).to_be_visible()
    fleet.recorded(order, f"the pole stands\f{HOSTILE}\fthe pole has fallen")

    recordings.get_by_role("button", name="Watch").click()
    viewer = run_page.get_by_role("dialog", name="Episode of gymnasium:CartPole-v1")
    recorded = viewer.locator("[data-recorded]")
    expect(recorded).to_have_text("the pole stands")
    expect(viewer).to_contain_text("9.5")
    viewer.get_by_role("slider", name="Frame").press("ArrowRight")
    stays_text(run_page, recorded)
    viewer.get_by_role("button", name="Play").click()
    expect(recorded).to_have_text("the pole has fallen")
    expect(viewer).to_contain_text("frame 3 of 3")


def test_a_failed_recording_has_a_reason(run_page: Page, fleet: SimulatedManager) -> None:
    recordings = run_page.get_by_role("region", name="Recordings")
    recordings.get_by_role("button", name="Record", exact=True).click()
    run_page.get_by_role("dialog").get_by_role("button", name="Record").click()
    [order] = fleet.ordered(recordings=1)
    fleet.update(order, "failed", reason=f"the env cannot be drawn: {HOSTILE}")

    failed = recordings.locator("[data-recording=failed]")
    expect(failed).to_be_visible()
    expect(failed).to_contain_text("the env cannot be drawn: <script>")
    expect(failed.get_by_role("button", name="Watch")).to_have_count(0)
    expect(run_page.locator("#hostile")).to_have_count(0)


def test_returns_of_episodes_are_distributed(run_page: Page, fleet: SimulatedManager) -> None:
    open_tab(run_page, "Samples")
    run_page.get_by_role("button", name="Distribution").click()
    spread = run_page.get_by_role("region", name="Distribution")
    expect(spread).to_contain_text("No finished episodes yet")

    returns = [float(n) for n in range(1, 22)]
    fleet.episodes = [
        window(*returns, count=24, truncated=1, terminated=20, aborted=3),
        window(30.0, mode="eval"),
    ]
    expect(spread.locator("[data-task]")).to_have_count(2, timeout=60_000)  # read every 30 s
    training = spread.locator("[data-task=train]")
    # Count, mean, percentiles 10, 50 and 90.
    expect(training).to_have_text("gymnasium:CartPole-v1211131119")
    expect(spread.locator("[data-task=eval]")).to_contain_text("evaluation130")


def test_a_fleet_is_not_wider_than_a_phone(run_page: Page) -> None:
    run_page.set_viewport_size({"width": 360, "height": 800})
    run_page.get_by_role("button", name="Slots of worker 0").click()
    run_page.get_by_role("list", name="Slots").wait_for()

    wait_for_width(run_page, 360)


def test_requested_workers_are_shown_until_they_run(
    run_page: Page, fleet: SimulatedManager
) -> None:
    expect(run_page.locator("[data-worker='1']")).to_be_visible()
    resize(run_page, fleet.name, 3, reason="more data")

    expect(run_page.locator("[data-size=requested]")).to_contain_text(
        "requested: 3 workers; 2 present"
    )
    fleet.workers = 3
    expect(run_page.locator("[data-size=requested]")).to_have_count(0)
    expect(run_page.locator("[data-worker='2']")).to_be_visible()
    open_tab(run_page, "Fleet & logs", "Logs")
    events = run_page.get_by_label("Events, newest first").get_by_role("listitem")
    changed = events.filter(has_text="num_workers 2 → 3").first
    expect(changed).to_contain_text("more data")


def resize(page: Page, name: str, workers: int, *, reason: str = "") -> None:
    page.locator("[data-resize]").click()
    dialog = page.get_by_role("dialog", name=f"Workers of {name}")
    dialog.get_by_label("Workers").fill(str(workers))
    dialog.get_by_label("Reason").fill(reason)
    dialog.get_by_role("button", name="Resize").click()


def test_a_replacement_of_a_worker_is_shown_until_it_runs(
    run_page: Page, fleet: SimulatedManager
) -> None:
    run_page.get_by_role("button", name="Slots of worker 1").click()
    run_page.get_by_role("button", name="Replace worker 1").click()
    dialog = run_page.get_by_role("dialog", name="Replace worker 1")
    dialog.get_by_label("Reason").fill("its returns drift")
    dialog.get_by_role("button", name="Replace", exact=True).click()

    expect(run_page.get_by_text("replacement requested")).to_be_visible()
    wait_until(
        lambda: fleet.control and [restart.worker for restart in fleet.control.restarts] == [1],
        seconds=30,
        what="the fleet receives the request",
    )
    fleet.replace(1)
    expect(run_page.get_by_role("button", name="Replace worker 1")).to_be_visible()
    open_tab(run_page, "Fleet & logs", "Logs")
    events = run_page.get_by_label("Events, newest first").get_by_role("listitem")
    event = events.filter(has_text="requested a replacement of worker 1").first
    expect(event).to_contain_text("its returns drift")


def test_the_progress_of_a_worker_cordon_is_shown(run_page: Page, fleet: SimulatedManager) -> None:
    run_page.goto(f"/runs/{fleet.name}/fleet?worker=1")
    line = run_page.locator("[data-worker='1']")
    run_page.get_by_role("button", name="Drain worker 1").click()
    dialog = run_page.get_by_role("dialog", name="Drain and cordon worker 1")
    expect(dialog).to_contain_text("It is not replaced")
    dialog.get_by_label("Reason").fill("its node is hot")
    dialog.get_by_role("button", name="Drain", exact=True).click()

    expect(line.locator("[data-cordon='requested']")).to_contain_text("its node is hot")
    wait_until(
        lambda: fleet.control and [cordon.worker for cordon in fleet.control.cordons] == [1],
        seconds=30,
        what="the fleet receives the request",
    )
    fleet.kept_out = {1}
    expect(line.locator("[data-cordon='out']")).to_be_visible()
    expect(line.locator("[data-state='cordoned']")).to_be_visible()
    run_page.get_by_role("button", name="Uncordon worker 1").click()
    dialog = run_page.get_by_role("dialog", name="Uncordon worker 1")
    dialog.get_by_role("button", name="Uncordon", exact=True).click()
    expect(line.locator("[data-cordon='lifting']")).to_be_visible()
    fleet.kept_out = set()
    expect(line.locator("[data-cordon]")).to_have_count(0)


def test_the_newest_log_line_of_a_worker_is_shown_as_text(
    run_page: Page, fleet: SimulatedManager
) -> None:
    fleet.last_logs[0] = f"ready {HOSTILE}"
    expect(run_page.locator("[data-worker='0'] [data-last-log]")).to_contain_text("<script>")
    assert barriers(run_page) == []
