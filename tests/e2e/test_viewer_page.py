"""The viewer of a group: messages, tokens, diverging sequences, export and hostile text."""

import json
import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.pushed_groups import (
    HOSTILE,
    LONG_TOKENS,
    UNSEEN,
    conversation,
    long_group,
    outside_run,
    push,
)
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]
# Pages of 128 k tokens must respond in 1.5 s. The limit applies to the page's own processor time
# and the fastest of a few answers; wall-clock time may include other tests on the machine.
INTERACTIVE_SECONDS = 1.5
PAINT_SECONDS = 15.0
CONTENT_TOP_PX = 260


@pytest.fixture(scope="module")
def groups(server: Server) -> list[int]:
    outside_run(server, "looked-into")
    return push(
        server,
        "looked-into",
        conversation("Which one?", "this", "that", "this", scores=[0.0, 1.0, 0.5]),
        conversation(HOSTILE, UNSEEN, "x" * 50_000, scores=[0.0, 1.0], evil=HOSTILE),
        long_group(),
        conversation("And now?", "good", "bad", scores=[1.0, 0.0]),
        conversation("Once more?", "same", "same", scores=[1.0, 0.0], tokens=[[1, 2], [1, 2]])
        | {"masks": [[-100, 2]] * 2, "inference_logprobs": [[1.0, -0.1]] * 2},
        conversation("How many?", "three of them", "two", scores=[0.0, 0.0]),
        conversation("How many?", "four of them", "four", scores=[1.0, 1.0]),
    )


def test_answers_differ_in_words_and_their_tokens_have_addresses(
    groups: list[int], signed_in: Page, tmp_path: Path
) -> None:
    page = signed_in
    page.goto(f"/runs/looked-into/groups/{groups[0]}")
    expect(page.get_by_label("Message 2, assistant")).to_contain_text("this")
    page.keyboard.press("]")
    expect(page.get_by_label("Message 2, assistant")).to_contain_text("that")
    expect(page).to_have_url(re.compile("seq=1"))

    page.get_by_role("tab", name="Group diff").click()
    expect(page.get_by_text("1 deletion")).to_be_visible()
    page.get_by_role("tab", name="Tokens").click()
    page.locator('[data-token="3"]').click()
    # The card is that of a token under the pointer, if there is one.
    page.mouse.move(0, 0)

    expect(page).to_have_url(re.compile("token=3"))
    expect(page.locator("[data-selected]")).to_have_attribute("data-token", "3")
    expect(page.get_by_text("trained on", exact=True).last).to_be_visible()
    page.keyboard.press("n")
    expect(page.locator("[data-selected]")).to_have_attribute("data-token", "4")
    expect(page.get_by_text("-5", exact=True)).to_be_visible()
    # On the run's other pages this key pauses the run; here it belongs to the viewer.
    page.keyboard.press("p")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("n")
    expect(page.locator("[data-selected]")).to_have_attribute("data-token", "4")
    page.keyboard.press("c")
    expect(page.get_by_role("radio", name="Logprob")).to_be_checked()

    page.reload()
    expect(page.locator("[data-selected]")).to_have_attribute("data-token", "4")
    with page.expect_download() as download:
        page.keyboard.press("x")
    saved = tmp_path / "group.json"
    download.value.save_as(saved)
    assert json.loads(saved.read_text())["scores"] == [0.0, 1.0, 0.5]


def test_answers_to_a_prompt_are_compared_in_three_clicks(
    groups: list[int], signed_in: Page
) -> None:
    page = signed_in
    page.goto("/runs/looked-into/trajectories?sort=score&q=three")

    page.get_by_role("link", name="How many?").click()
    page.get_by_role("tab", name="Over versions").click()
    page.get_by_label(f"Select group {groups[6]}").check()

    left = page.get_by_label(f"Left: group {groups[5]}, sequence 0")
    right = page.get_by_label(f"Right: group {groups[6]}, sequence 0")
    expect(left.locator("[data-text] del")).to_have_text("three")
    expect(right.locator("[data-text] ins")).to_have_text("four")
    page.reload()
    expect(right.locator("[data-text] ins")).to_have_text("four")


@pytest.mark.parametrize(
    ("sort", "answer"), [("score", "bad"), ("-score", "good"), ("newest", "good")]
)
def test_a_group_opens_at_the_sequence_of_the_list_order(
    groups: list[int], signed_in: Page, sort: str, answer: str
) -> None:
    page = signed_in
    page.goto(f"/runs/looked-into/groups/{groups[3]}?sort={sort}")
    expect(page.get_by_label("Message 2, assistant")).to_contain_text(answer)


@pytest.mark.parametrize("width", [1440, 1920])
def test_content_begins_near_the_top(groups: list[int], signed_in: Page, width: int) -> None:
    page = signed_in
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"/runs/looked-into/groups/{groups[0]}")
    view = page.get_by_role("tabpanel")
    expect(page.get_by_label("Message 1, user")).to_be_visible()
    expect(page.get_by_role("complementary", name="Details")).to_contain_text("Producer")

    box = view.bounding_box()
    assert box
    assert box["y"] <= CONTENT_TOP_PX, box


def test_chips_of_sequences_have_words(groups: list[int], signed_in: Page) -> None:
    page = signed_in
    page.goto(f"/runs/looked-into/groups/{groups[0]}")
    chips = page.get_by_role("group", name="Sequences").get_by_role("button")

    expect(chips).to_have_count(3)
    expect(chips.nth(0)).to_have_text(re.compile(r"^Sequence 0score 0\d+ tokens"))
    page.goto(f"/runs/looked-into/groups/{groups[4]}")
    expect(chips).to_have_count(2)
    expect(chips.nth(1)).to_contain_text("same as sequence 0")


def test_markup_in_messages_is_shown_as_text(groups: list[int], signed_in: Page) -> None:
    page = signed_in
    page.goto(f"/runs/looked-into/groups/{groups[1]}")
    first = page.get_by_label("Message 1, user")
    expect(first).to_contain_text(HOSTILE)
    expect(page.get_by_label("Message 2, assistant")).to_contain_text(
        "⟨U+202E⟩gnp.exe⟨U+200B⟩⟨U+001B⟩[31m"
    )

    page.keyboard.press("]")
    answer = page.get_by_label("Message 2, assistant")
    expect(answer).to_contain_text("50,000 characters")
    answer.get_by_role("button", name=re.compile("Show more")).click()
    expect(answer.get_by_role("button", name=re.compile("Show more"))).to_have_count(0)

    expect(page.get_by_role("complementary", name="Details")).to_contain_text("onerror")
    assert page.title() != "owned"
    assert page.locator("main img, main script").count() == 0


class OwnTime:
    """Processor time of a page's main thread: script, style, layout and paint."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def seconds(self) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return float(
            next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")
        )


def quickest_answer(server: Server, path: str, *, times: int = 3) -> float:
    """Return the seconds of the fastest of a few answers, because the machine is shared."""
    results = []
    for _ in range(times):
        began = time.perf_counter()
        server.get(path)
        results.append(time.perf_counter() - began)
    return min(results)


def test_128_thousand_tokens_scroll_smoothly_and_are_loaded_in_windows(
    groups: list[int], signed_in: Page, server: Server
) -> None:
    page = signed_in
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    page.goto(f"/runs/looked-into/groups/{groups[2]}")
    expect(page.get_by_role("tab", name="Tokens")).to_be_visible()
    sequences = f"/api/v1/runs/looked-into/groups/{groups[2]}/sequences"
    served = quickest_answer(server, sequences)
    served += quickest_answer(server, f"{sequences}/0?start=0&count=4096")
    own = OwnTime(page)

    began, used = time.monotonic(), own.seconds()
    page.get_by_role("tab", name="Tokens").click()
    expect(page.locator('[data-token="0"]')).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert time.monotonic() - began < PAINT_SECONDS
    used = own.seconds() - used
    assert used > 0, "nothing was counted, so nothing was measured"
    assert used + served <= INTERACTIVE_SECONDS, (used, served)

    began = time.monotonic()
    page.goto(f"/runs/looked-into/groups/{groups[2]}?view=tokens&token=100000")
    expect(page.locator('[data-token="100000"]')).to_be_in_viewport()
    assert time.monotonic() - began < PAINT_SECONDS

    assert page.locator("[data-token]").count() < 4000
    windows = [url for url in urls if "/sequences/0?" in url]
    assert 0 < len(windows) <= 6, windows
    assert all("count=4096" in url for url in windows)
    expect(page.get_by_text(f"of {LONG_TOKENS:,}")).to_be_visible()
    page.get_by_role("region", name=re.compile("Tokens of")).press("ArrowRight")
    expect(page.locator("[data-selected]")).to_have_attribute("data-token", "100001")
