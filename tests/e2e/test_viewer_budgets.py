"""Durations of large groups in the viewer, and the costs of a page that stays open."""

import base64
import json
import re
import time
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.buffer_factories import group
from tests.e2e import figures
from tests.e2e.pushed_groups import conversation, outside_run, push
from tests.e2e.test_page_budgets import SCROLL, busy_run
from tests.e2e.traffic import Traffic
from tests.server import Server

pytestmark = pytest.mark.alone("measures the duration of pages")

OPEN_SECONDS = 1.0
REPEATS = 3
SEQUENCES = 16
SEQUENCE_TOKENS = 100_000
TURNS = 200
ANSWER_WORDS = 32_000
IMAGE_BYTES = 4_000_000
FRAMES_PER_SECOND = 55.0
LIVE_SECONDS = 60.0
PUSH_SECONDS = 1.0
LIVE_BYTES = 100_000
LIVE_CORE = 0.03


def wide_group() -> dict[str, Any]:
    """Return a group of 28 MB of JSON: 16 sequences of 100,000 tokens, with answers of 20 kB."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 50_000, (SEQUENCES, SEQUENCE_TOKENS), dtype=np.int32)
    tokens[:, :50] = tokens[0, :50]
    answers = [" ".join(f"word{n % (7 + place)}" for n in range(3000)) for place in range(16)]
    return conversation("Which one?", *answers, scores=list(np.linspace(0, 1, SEQUENCES))) | {
        "tokens": list(tokens),
        "masks": [np.where(np.arange(SEQUENCE_TOKENS) < 50, -100, row) for row in tokens],
        "inference_logprobs": list(
            np.round(-rng.random((SEQUENCES, SEQUENCE_TOKENS)), 4).astype(np.float32)
        ),
    }


def long_conversation() -> dict[str, Any]:
    """Return 200 turns with tools, an answer of 32,000 words and a picture of 4 MB."""
    noise = np.random.default_rng(1).integers(0, 256, (1_200, 1_150, 3), dtype=np.uint8)
    file = BytesIO()
    Image.fromarray(noise).save(file, "png")
    picture = base64.b64encode(file.getvalue()).decode()
    assert len(file.getvalue()) >= IMAGE_BYTES
    messages: list[dict[str, Any]] = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is in the picture?"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}},
            ],
        }
    ]
    for turn in range(TURNS // 2):
        arguments = json.dumps({"row": turn, "why": "to count the pixels " * 5})
        call = {"id": f"c{turn}", "type": "function"}
        function = {"name": "read_row", "arguments": arguments}
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [call | {"function": function}]},
            {"role": "tool", "tool_call_id": f"c{turn}", "content": f"row {turn}: " + "9 " * 100},
        ]
    words = " ".join(f"word{n}" if n % 40 else f"\n\n**Part {n}**" for n in range(ANSWER_WORDS))
    return conversation("x", "y", scores=[1.0]) | {
        "messages": [[*messages, {"role": "assistant", "content": words}]]
    }


def test_the_group_diff_of_28_megabytes_opens_within_a_second(
    signed_in: Page, server: Server
) -> None:
    page, run = signed_in, "wide-group"
    outside_run(server, run)
    (sequence,) = push(server, run, wide_group())
    seconds = []
    for _ in range(REPEATS):
        page.goto(f"/runs/{run}/groups/{sequence}")
        expect(page.get_by_label("Message 2, assistant")).to_contain_text("word")
        page.wait_for_load_state("networkidle")
        began = time.monotonic()
        page.get_by_role("tab", name="Group diff").click()
        page.get_by_text(re.compile("deletion")).first.wait_for()
        seconds.append(time.monotonic() - began)

    figures.show(
        f"group diff of {SEQUENCES} sequences × {SEQUENCE_TOKENS:,} tokens",
        f"{max(seconds):.2f} s",
        f"{OPEN_SECONDS:g} s",
    )
    assert max(seconds) <= OPEN_SECONDS


def test_a_conversation_of_200_turns_opens_within_a_second_and_scrolls(
    signed_in: Page, server: Server
) -> None:
    page, run = signed_in, "long-conversation"
    outside_run(server, run)
    (sequence,) = push(server, run, long_conversation())
    page.goto(f"/runs/{run}")
    page.locator("[data-live=live]").wait_for()
    seconds = []
    for _ in range(REPEATS):
        began = time.monotonic()
        page.goto(f"/runs/{run}/groups/{sequence}")
        expect(page.get_by_label("Message 1, user")).to_contain_text("What is in the picture?")
        page.get_by_label("Message 2, assistant").get_by_text("read_row").first.wait_for()
        seconds.append(time.monotonic() - began)
    page.wait_for_load_state("networkidle")
    box = page.get_by_label("Message 1, user").locator(
        "xpath=ancestor::*[contains(@style, 'overflow') or @data-scroll][1]"
    )
    measured = page.evaluate(
        SCROLL.replace("document.querySelector(selector)", "selector"),
        [
            box.element_handle()
            if box.count()
            else page.evaluate_handle("document.scrollingElement"),
            5,
            60,
        ],
    )

    rate = 1000 * measured["frames"] / measured["ms"]
    figures.show(
        f"{TURNS} turns with tools, {ANSWER_WORDS:,} words, an image of 4 MB",
        f"opened in {max(seconds):.2f} s; scrolled with {rate:.0f} frames/s",
        f"{OPEN_SECONDS:g} s; {FRAMES_PER_SECOND:g} frames/s",
    )
    assert max(seconds) <= OPEN_SECONDS
    assert measured["top"] > 5_000, "nothing was scrolled, so nothing was measured"
    assert rate >= FRAMES_PER_SECOND


def test_a_live_run_page_costs_little(signed_in: Page, server: Server) -> None:
    page, run = signed_in, "watched"
    busy_run(server, run)
    for number in range(8):
        server.post(f"/atropos/{run}/scored_data", group(mark=number, env_id=0))
    server.get(f"/atropos/{run}/batch")
    traffic = Traffic(page)
    page.goto(f"/runs/{run}")
    page.locator("[data-live=live]").wait_for()
    page.wait_for_timeout(5_000)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def task_seconds() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(float(m["value"]) for m in metrics if m["name"] == "TaskDuration")

    before, used, began, number = traffic.bytes, task_seconds(), time.monotonic(), 0
    while time.monotonic() - began < LIVE_SECONDS:
        server.post(f"/atropos/{run}/scored_data", group(mark=number, env_id=0))
        server.post(
            f"/api/v1/runs/{run}/metrics",
            {"samples": [{"name": "loss", "step": number, "value": 1 / (1 + number)}]},
        )
        if number % 8 == 0:
            server.get(f"/atropos/{run}/batch")
        page.wait_for_timeout(1000 * PUSH_SECONDS)
        number += 1
    passed = time.monotonic() - began
    core = (task_seconds() - used) / passed
    received = (traffic.bytes - before) / passed * 60

    figures.show(
        "live run page, one push a second",
        f"{100 * core:.1f} % of a core; {received / 1000:.0f} kB a minute",
        f"{100 * LIVE_CORE:.0f} %; {LIVE_BYTES / 1000:.0f} kB",
    )
    assert core <= LIVE_CORE
    assert received <= LIVE_BYTES
