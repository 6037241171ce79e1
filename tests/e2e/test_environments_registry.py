"""The registry of environments: their runs, their success and how to launch them."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.pages import wait_for_width
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]


def test_an_environment_is_found_opened_and_links_to_its_run(
    signed_in: Page, seeded_server: Server
) -> None:
    page = signed_in
    page.goto("/environments")
    cartpole = page.locator("[data-environment='gymnasium:CartPole-v1']")
    expect(cartpole).to_contain_text("active")
    page.keyboard.press("/")
    page.keyboard.type("gsm")
    expect(cartpole).to_have_count(0)
    gsm8k = page.locator("[data-environment='gsm8k']")
    expect(gsm8k).to_contain_text("outside")
    expect(gsm8k).to_contain_text("%")
    assert "q=gsm" in page.url

    gsm8k.get_by_role("button", name="gsm8k").press("Enter")
    drawer = page.get_by_role("dialog", name="gsm8k")
    expect(drawer.locator("code")).to_contain_text("/atropos/seed-atropos-mix")
    expect(drawer).to_contain_text("2 registered")
    page.reload()
    expect(drawer).to_be_visible()
    drawer.get_by_role("link", name="seed-atropos-mix").click()
    expect(page.get_by_role("heading", name="seed-atropos-mix")).to_be_visible()


def test_the_command_and_the_form_launch_this_environment(
    signed_in: Page, seeded_server: Server
) -> None:
    page = signed_in
    page.goto("/environments?kind=tokens")
    page.get_by_role("button", name="task:reverse").click()
    drawer = page.get_by_role("dialog", name="task:reverse")
    expect(drawer.locator("code")).to_contain_text("rolldeck run create --name reverse")
    expect(drawer).to_contain_text("reverse-4-letters")
    drawer.get_by_role("button", name="Close").click()
    expect(drawer).to_have_count(0)

    page.get_by_text("steps", exact=True).first.click()
    page.get_by_role("button", name="gymnasium:Pendulum-v1").click()
    pendulum = page.get_by_role("dialog", name="gymnasium:Pendulum-v1")
    expect(pendulum.locator("code")).to_have_text(
        "rolldeck run create --name pendulum-v1 --preset pendulum"
    )
    pendulum.get_by_label("Max. steps").fill("20")
    pendulum.get_by_role("button", name="Run probe").click()
    tried = pendulum.locator("[data-tried]")
    expect(tried).to_contain_text("One episode: 20 steps", timeout=60_000)
    expect(tried).to_have_attribute("data-tried", "played")
    pendulum.get_by_role("link", name="Launch form: pendulum").click()
    page.wait_for_url("**/runs/new?preset=pendulum")


def test_an_environment_is_denied_to_new_runs_and_allowed_again(
    signed_in: Page, seeded_server: Server
) -> None:
    page, spec = signed_in, "gymnasium:Acrobot-v1"
    # An earlier attempt of the test may have denied it.
    seeded_server.http.put(
        "/api/v1/environments/approvals", json={"spec": spec, "is_allowed": True}
    )
    body = {"name": "denied-to-me", "kind": "fleet", "config": {"environment": {"spec": spec}}}
    page.goto(f"/environments?q={spec}")
    page.get_by_role("button", name=spec).click()
    drawer = page.get_by_role("dialog", name=spec)
    drawer.get_by_role("button", name="Deny…").click()
    dialog = page.get_by_role("dialog", name=f"Deny {spec} for new runs?")
    dialog.get_by_label("Reason").fill("it <b>leaks</b> memory")
    dialog.get_by_role("button", name="Deny", exact=True).click()

    expect(drawer.locator("[data-denied=denied]")).to_contain_text(
        re.compile("Denied for new runs by ada .*: it <b>leaks</b> memory")
    )
    refused = seeded_server.http.post("/api/v1/runs", json=body)
    assert refused.status_code == 400, refused.text
    assert "it <b>leaks</b> memory" in refused.text
    assert "denied-to-me" not in [
        run["name"] for run in seeded_server.get("/api/v1/runs")["results"]
    ]

    drawer.get_by_role("button", name="Allow…").click()
    dialog = page.get_by_role("dialog", name=f"Allow {spec}?")
    dialog.get_by_role("button", name="Allow", exact=True).click()
    expect(drawer.locator("[data-denied=allowed]")).to_be_visible()
    checked = seeded_server.post("/api/v1/run-checks", {"config": body["config"]})
    assert "denied" not in str(checked)


def test_hostile_names_are_shown_as_text_and_an_empty_result_has_a_message(
    signed_in: Page, seeded_server: Server
) -> None:
    page = signed_in
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto("/environments?kind=outside")
    hostile = page.locator("[data-environment^='env ']")
    expect(hostile).to_contain_text("⟨U+202E⟩slave")
    assert page.title() != "owned"
    hostile.get_by_role("button").click()
    expect(page.get_by_role("dialog")).to_contain_text("seed-hostile-text")
    wait_for_width(page, 360)
    page.goto("/environments?q=nowhere")
    expect(page.get_by_role("heading", name="No matching environments")).to_be_visible()
