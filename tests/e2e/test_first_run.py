"""A newcomer launches runs and starts all their processes with the commands of the page alone."""

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import pytest
import torch
from playwright.sync_api import Locator, Page, expect

from rollouts.fleet.datasets.dataset_task import lesson_task
from rollouts.fleet.engine import checkpoints as checkpoint_files
from rollouts.fleet.engine.building import build, clone_behavior
from rollouts.fleet.engine.tokenizers import AlphabetTokenizer, save_tokenizer
from runs.config.rules import run_config
from tests import processes
from tests.e2e.conftest import INFERENCE_SERVER
from tests.e2e.pages import points
from tests.server import ROOT, Server, environment, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

# The imports of workers, trainer and inference server take long on a busy machine.
STARTS_WITHIN_MS = 240_000
CHECKPOINT: Final = "reverse"
LANGUAGE: Final[dict[str, Any]] = {
    "lessons": {
        "reverse-6-letters": {
            "spec": "task:reverse",
            "kwargs": {"length": 2, "letters": 6},
            "sampling": {"max_tokens": 6},
        }
    },
    "model": {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "intermediate_size": 128,
        "max_position_embeddings": 32,
    },
}
PRESET: Final[dict[str, Any]] = {
    "fleet": {"num_workers": 1},
    "language": {
        **LANGUAGE,
        "model": {"checkpoint": CHECKPOINT},
        "inference": INFERENCE_SERVER,
    },
    "buffer": {"batch_size": 64, "max_staleness": 2, "off_policy_tolerance": 2.0},
}
AVERAGED: Final = 5
"""Number of readings of a chart's newest value that are averaged."""
RISE: Final = 0.1
"""From about 0.65 of the checkpoint; GRPO reaches 0.85 within 150 train steps."""


@pytest.fixture
def shell(server: Server, checkpoints: Path) -> Iterator[Callable[[str], Any]]:
    """A function that runs a command as in a terminal in the repository's folder."""
    more = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'platform'}:{ROOT / 'client'}",
        "ROLLDECK_CHECKPOINTS": str(checkpoints),
    }
    with ExitStack() as running:

        @contextmanager
        def terminal(command: str) -> Iterator[None]:
            with (server.var / "first-run.log").open("ab") as log:
                process = processes.start(
                    ["/bin/sh", "-c", command],
                    cwd=ROOT,
                    env=environment(server.var, server.port, **more),
                    stdout=log,
                    stderr=log,
                )
                try:
                    yield
                finally:
                    os.killpg(process.pid, signal.SIGTERM)  # the shell and its command
                    process.wait(30)

        yield lambda command: running.enter_context(terminal(command))


def launch(page: Page, server: Server, *, preset: str, name: str) -> Iterator[Locator]:
    """Launch a run with the form; yield its start card, and kill the run at the end."""
    run = server.free_name(name)
    page.goto(f"/runs/new?preset={preset}")
    page.get_by_label("Name", exact=True).fill(run)
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url(f"**/runs/{run}*")
    try:
        yield page.get_by_role("region", name="Start training")
    finally:
        server.post(f"/api/v1/runs/{run}/kill", {"reason": "the test is over"})


launched = contextmanager(launch)


def copied(step: Locator) -> str:
    """Copy the command of a step with its button, after inserting a token where it needs one."""
    token = step.get_by_role("button", name="Create one for 30 days and insert it")
    if token.count():
        token.click()
        expect(step.locator("[data-command] code")).to_contain_text(
            re.compile(r"--token rd_[\w-]+")
        )
    step.get_by_role("button", name="Copy", exact=True).click()
    text = step.page.evaluate("navigator.clipboard.readText()")
    assert isinstance(text, str)
    return text


def test_a_launched_run_learns_with_the_command_of_its_page(
    signed_in: Page, server: Server, shell: Callable[[str], None]
) -> None:
    page = signed_in
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    with launched(page, server, preset="cartpole", name="my-first-run") as card:
        expect(card.get_by_text("0 of 3 steps done")).to_be_visible()
        expect(card.get_by_text("1 of 3 steps done")).to_be_visible(timeout=STARTS_WITHIN_MS)
        trainer = copied(card.get_by_role("listitem").filter(has_text="Trainer"))
        assert trainer.startswith("python examples/ppo_cartpole.py --url ")

        shell(trainer)
        expect(card).to_have_count(0, timeout=STARTS_WITHIN_MS)
        wait_until(
            lambda: points(page, "Return, mean of the last 20") >= 3,
            seconds=STARTS_WITHIN_MS / 1000,
            what="the learning curve has points",
        )


@pytest.fixture
def language_preset(server: Server, checkpoints: Path) -> Iterator[str]:
    """A preset of an administrator: a checkpoint, a lesson, and an inference server."""
    language = run_config.parse({"language": LANGUAGE}).language
    assert language is not None
    torch.manual_seed(0)
    built = build(language)
    tasks = {name: lesson_task(lesson) for name, lesson in language.lessons.items()}
    clone_behavior(built, tasks, seed=0)
    checkpoint_files.save(built.model, checkpoints / CHECKPOINT)
    assert isinstance(built.tokenizer, AlphabetTokenizer)
    save_tokenizer(built.tokenizer, checkpoints / CHECKPOINT)

    name = "reverse-two-letters"
    server.post("/api/v1/presets", {"name": name, "access": "shared", "config": PRESET})
    yield name
    server.delete(f"/api/v1/presets/{name}")


def test_a_language_run_learns_with_the_commands_of_its_page(
    signed_in: Page, server: Server, shell: Callable[[str], None], language_preset: str
) -> None:
    page = signed_in
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    with launched(page, server, preset=language_preset, name="my-first-words") as card:
        expect(card.get_by_text("0 of 4 steps done")).to_be_visible()
        expect(card.get_by_text("1 of 4 steps done")).to_be_visible(timeout=STARTS_WITHIN_MS)
        steps = card.get_by_role("listitem")
        serve = copied(steps.filter(has_text=f"Inference server {INFERENCE_SERVER}"))
        assert serve.startswith("rolldeck inference --checkpoint $ROLLDECK_CHECKPOINTS/reverse ")
        trainer = copied(steps.filter(has_text="Trainer"))
        assert trainer.startswith("python examples/grpo.py --url ")

        shell(serve)
        shell(trainer)
        expect(card).to_have_count(0, timeout=STARTS_WITHIN_MS)
        check_rise(page)


def check_rise(page: Page) -> None:
    """Read the newest value of the reward chart until its average exceeds that of the start."""
    read: list[float] = []
    deadline = time.monotonic() + STARTS_WITHIN_MS / 1000
    while len(read) < 2 * AVERAGED or fmean(read[-AVERAGED:]) < fmean(read[:AVERAGED]) + RISE:
        assert time.monotonic() < deadline, f"the reward has not risen: {read}"
        page.reload()  # charts are refreshed every 10 to 30 s otherwise
        chart = page.get_by_role("region", name="Reward", exact=True)
        chart.scroll_into_view_if_needed()  # charts load once they are visible
        newest = chart.locator("[data-newest]")
        expect(newest).to_have_attribute("data-newest", re.compile(r"\d"))
        value = float(newest.get_attribute("data-newest") or "nan")
        if value != (read or [None])[-1]:
            read.append(value)
