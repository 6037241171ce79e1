"""A lesson with a data set is configured, corrected and launched in the form."""

import json
from pathlib import Path
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.launch_form import check, error_at, write
from tests.server import Server
from tests.unit.rollouts.fleet.datasets.dataset_files import write_jsonl

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

SPEC, ARGUMENTS = "language.lessons.sums.spec", "language.lessons.sums.kwargs"


@pytest.fixture
def datasets(server: Server) -> Path:
    """The data sets of the server: a folder of two splits, and an empty file."""
    folder = server.var / "datasets"
    rows = [{"question": f"{n}+1=", "result": str(n + 1)} for n in range(20)]
    write_jsonl(folder / "sums" / "train.jsonl", rows[:12])
    write_jsonl(folder / "sums" / "test.jsonl", rows[12:])
    (folder / "empty.jsonl").write_text("")
    return folder


def fill(page: Page, path: str, *, tokenizer: str = "bytes", **kwargs: object) -> None:
    """Write a configuration with one lesson; YAML includes JSON."""
    lesson = {"spec": path, "kwargs": kwargs, "sampling": {"max_tokens": 8}}
    language = {"lessons": {"sums": lesson}, "model": {"tokenizer": tokenizer}}
    write(page, json.dumps({"language": language, "num_steps": 100}, indent=2))


def test_a_data_set_is_chosen_corrected_checked_and_launched(
    signed_in: Page, datasets: Path, server: Server
) -> None:
    page = signed_in
    page.goto("/runs/new?preset=curriculum")
    fill(page, "dataset:empty.jsonl", tokenizer="alphabet")
    check(page, "refused")
    expect(error_at(page, SPEC)).to_contain_text("empty.jsonl: contains no rows")
    expect(page.get_by_text("lesson 'sums' has a data set").first).to_be_visible()

    fill(page, "dataset:sums", prompt="prompt", answer="result", eval_split="test")
    check(page, "refused")
    wrong = page.locator(f"[data-error^='{ARGUMENTS}']")
    expect(wrong).to_contain_text("sums has no column 'prompt'; columns: question, result")
    expect(error_at(page, SPEC)).to_have_count(0)

    fill(page, "dataset:sums", prompt="question", answer="result", eval_split="validation")
    check(page, "refused")
    expect(wrong).to_contain_text("sums: contains no validation.jsonl")

    reward = {"kind": "exact", "options": {"extract": "="}}
    chosen = {"prompt": "question", "answer": "result", "eval_split": "test"}
    fill(page, "dataset:sums", **chosen, rewards=[reward | {"kind": "exactly"}])
    check(page, "refused")
    expect(wrong).to_contain_text("'exactly' is unknown")

    fill(page, "dataset:sums", **chosen, rewards=[reward])
    findings = check(page, "ready")
    expect(findings).to_contain_text("12 rows for training, 8 for evaluation")

    name = f"sums-{uuid4().hex[:6]}"
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url(f"**/runs/{name}")
    lessons = server.get(f"/api/v1/runs/{name}")["config"]["language"]["lessons"]
    assert lessons["sums"]["spec"] == "dataset:sums"
    assert lessons["sums"]["kwargs"] == chosen | {"rewards": [reward]}
    server.post(f"/api/v1/runs/{name}/kill", {"reason": "the test is over"})
