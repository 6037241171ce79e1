"""A lesson with a data set is configured, corrected and launched in the form."""

import json
from pathlib import Path
from uuid import uuid4

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.server import Server
from tests.unit.rollouts.fleet.datasets.dataset_files import write_jsonl

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

LESSON = "sums"
LESSONS = {LESSON: {"spec": "task:sort", "sampling": {"max_tokens": 8}}}
# Foreign code is probed in its own process, which takes long on a busy machine.
CHECKED_WITHIN_MS = 90_000


@pytest.fixture
def datasets(server: Server) -> Path:
    """The data sets of the server: a folder of two splits, and an empty file."""
    folder = server.var / "datasets"
    rows = [{"question": f"{n}+1=", "result": str(n + 1)} for n in range(20)]
    write_jsonl(folder / "sums" / "train.jsonl", rows[:12])
    write_jsonl(folder / "sums" / "test.jsonl", rows[12:])
    (folder / "empty.jsonl").write_text("")
    return folder


@pytest.fixture
def page(signed_in: Page, datasets: Path) -> Page:
    """A form with one lesson, and a tokenizer that can encode any text."""
    signed_in.goto("/runs/new?preset=curriculum")
    view = signed_in.get_by_role("radiogroup", name="View of the lessons")
    view.get_by_text("JSON", exact=True).click()
    signed_in.get_by_label("Lessons as JSON").fill(json.dumps(LESSONS))
    view.get_by_text("Table", exact=True).click()
    return signed_in


def spec(page: Page) -> Locator:
    return page.get_by_label(f"Environment of {LESSON}", exact=True)


def arguments(page: Page) -> Locator:
    return page.get_by_label(f"Arguments of {LESSON}", exact=True)


def fill(page: Page, path: str, **kwargs: object) -> None:
    spec(page).fill(path)
    arguments(page).fill(json.dumps(kwargs))


def check(page: Page, result: str) -> Locator:
    """Check the form and return the findings."""
    page.get_by_role("button", name="Check", exact=True).click()
    found = page.locator(f"[data-result={result}]")
    expect(found).to_be_visible(timeout=CHECKED_WITHIN_MS)
    expect(found).not_to_contain_text("outdated")
    return found


def expect_error(page: Page, field: Locator, words: str) -> None:
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text(words).first).to_be_visible()


def choose_bytes(page: Page) -> None:
    page.get_by_role("combobox", name="Tokenizer").click()
    page.get_by_role("option", name="bytes").click()


def test_a_data_set_is_chosen_corrected_checked_and_launched(page: Page, server: Server) -> None:
    fill(page, "dataset:empty.jsonl")
    check(page, "refused")
    expect_error(page, spec(page), "empty.jsonl: contains no rows")
    expect(page.get_by_text("lesson 'sums' has a data set").first).to_be_visible()

    choose_bytes(page)
    fill(page, "dataset:sums", prompt="prompt", answer="result", eval_split="test")
    check(page, "refused")
    expect_error(page, arguments(page), "sums has no column 'prompt'; columns: question, result")
    expect(spec(page)).not_to_have_attribute("aria-invalid", "true")

    arguments(page).fill(
        json.dumps({"prompt": "question", "answer": "result", "eval_split": "validation"})
    )
    check(page, "refused")
    expect_error(page, arguments(page), "sums: contains no validation.jsonl")

    reward = {"kind": "exact", "options": {"extract": "="}}
    chosen = {"prompt": "question", "answer": "result", "eval_split": "test"}
    arguments(page).fill(json.dumps(chosen | {"rewards": [reward | {"kind": "exactly"}]}))
    check(page, "refused")
    expect_error(page, arguments(page), "'exactly' is unknown")

    arguments(page).fill(json.dumps(chosen | {"rewards": [reward]}))
    findings = check(page, "ready")
    expect(findings).to_contain_text("12 rows for training, 8 for evaluation")

    name = f"sums-{uuid4().hex[:6]}"
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url(f"**/runs/{name}")
    lessons = server.get(f"/api/v1/runs/{name}")["config"]["language"]["lessons"]
    assert lessons[LESSON]["spec"] == "dataset:sums"
    assert lessons[LESSON]["kwargs"] == chosen | {"rewards": [reward]}
    server.post(f"/api/v1/runs/{name}/kill", {"reason": "the test is over"})
