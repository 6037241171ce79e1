"""A newcomer launches a run and starts its trainer from the page alone."""

import re
import shlex
import sys

import pytest
from playwright.sync_api import Page, expect

from tests import processes
from tests.e2e.pages import points
from tests.server import ROOT, Server, environment, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.system]

# The imports of workers and trainer take long on a busy machine.
STARTS_WITHIN_MS = 240_000


def test_a_launched_run_learns_with_the_command_of_its_page(
    signed_in: Page, server: Server
) -> None:
    page, run = signed_in, server.free_name("my-first-run")
    page.goto("/runs/new?preset=cartpole")
    page.get_by_label("Name", exact=True).fill(run)
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url(f"**/runs/{run}*")

    card = page.get_by_role("region", name="Start training")
    expect(card.get_by_text("0 of 3 steps done")).to_be_visible()
    expect(card.get_by_text("1 of 3 steps done")).to_be_visible(timeout=STARTS_WITHIN_MS)
    card.get_by_role("button", name="Create one for 30 days and insert it").click()
    command = card.locator(".command code")
    expect(command).to_contain_text(re.compile(r"--token rd_[\w-]+"))

    program, *arguments = shlex.split(command.inner_text())
    assert program == "python"
    with (server.var / "first-run.log").open("wb") as log:
        trainer = processes.start(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=environment(server.var, server.port),
            stdout=log,
            stderr=log,
        )
        try:
            expect(card).to_have_count(0, timeout=STARTS_WITHIN_MS)
            wait_until(
                lambda: points(page, "Return, of training episodes") >= 3,
                seconds=STARTS_WITHIN_MS / 1000,
                what="the learning curve has points",
            )
        finally:
            trainer.terminate()
            trainer.wait(30)
            server.post(f"/api/v1/runs/{run}/kill", {"reason": "the test is over"})
