"""An operator groups runs in a project, launches in it, and finds its runs."""

import re
from uuid import uuid4

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import VIEWER, sign_in
from tests.e2e.pages import wait_for_width
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]


def create(server: Server) -> str:
    """Create a project with defaults and return its name."""
    name = f"poles-{uuid4().hex[:6]}"
    defaults = {"preset": "cartpole", "config": {"seed": 7}, "tags": ["of-a-project"]}
    server.post("/api/v1/projects", {"name": name, "title": "Poles", "defaults": defaults})
    return name


def project_row(page: Page, project: str) -> Locator:
    """Open the dialog of projects on the list of runs, and return the project's row."""
    page.goto("/runs?q=state:running")
    page.get_by_role("button", name="Projects").click()
    return page.locator(f"[data-row][data-project='{project}']")


def test_a_run_launched_in_a_project_has_its_defaults(signed_in: Page, server: Server) -> None:
    page, project, run = signed_in, create(server), f"in-project-{uuid4().hex[:6]}"
    project_row(page, project).get_by_role("link", name="Launch").click()

    expect(page.locator(f"[data-project='{project}']")).to_contain_text(
        "sets seed and adds the tags of-a-project"
    )
    expect(page.get_by_label("Seed", exact=True)).to_have_value("7")
    page.get_by_label("Name", exact=True).fill(run)
    page.get_by_label("Train steps", exact=True).fill("12")
    page.get_by_role("button", name="Launch", exact=True).click()
    expect(page.get_by_role("heading", name=run)).to_be_visible()

    made = server.get(f"/api/v1/runs/{run}")
    assert (made["project"], made["preset"], made["tags"]) == (
        project,
        "cartpole",
        ["of-a-project"],
    )
    assert (made["config"]["seed"], made["num_steps"]) == (7, 12)
    server.post(f"/api/v1/runs/{run}/kill")


def test_a_run_is_moved_into_a_project_and_found_there(signed_in: Page, server: Server) -> None:
    page, project, run = signed_in, create(server), server.new_run("to-be-grouped")
    page.goto(f"/runs/{run}")
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Add to project").click()
    dialog = page.get_by_role("dialog", name=f"Project of {run}")
    dialog.get_by_role("combobox", name="Project").click()
    page.get_by_role("option", name=project).click()
    dialog.get_by_role("button", name="Save").click()

    page.get_by_role("link", name=project).click()
    expect(page.locator("tbody [data-open]")).to_have_text([run])
    page.get_by_label(re.compile("^Filter runs")).fill(f"project:{project} state:paused")
    expect(page.get_by_role("heading", name="No matching runs")).to_be_visible()

    page.goto(f"/runs?q=name:{run}")
    expect(page.get_by_role("link", name=project)).to_be_visible()
    page.get_by_role("button", name="Search or command").click()
    page.keyboard.type(project)
    expect(page.get_by_role("option", selected=True)).to_contain_text(project)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/runs\\?q=project(:|%3A){project}$"))
    row = server.get(f"/api/v1/projects/{project}")
    assert row["runs"] == 1


def test_a_renamed_project_keeps_its_runs_and_is_not_deleted(
    signed_in: Page, server: Server
) -> None:
    page, project = signed_in, create(server)
    server.new_run("stays-in", project=project)
    project_row(page, project).get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete project")
    expect(dialog.get_by_text("It has 1 run. Move them")).to_be_visible()
    expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
    dialog.get_by_role("button", name="Cancel").click()

    row = page.locator(f"[data-row][data-project='{project}']")
    row.get_by_role("button", name="Edit").click()
    page.get_by_role("dialog").get_by_label("Name", exact=True).fill(f"{project}-b")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    projects = page.get_by_role("table", name="Projects")
    projects.get_by_role("link", name=f"{project}-b", exact=True).click()
    expect(page.locator("tbody [data-open]")).to_have_count(1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_projects_fit_a_phone_and_a_viewer_changes_none(
    page: Page, server: Server, scheme: str
) -> None:
    project = create(server)
    sign_in(page, VIEWER)
    page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(project_row(page, project)).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^(New|Edit|Delete)"))).to_have_count(0)
    wait_for_width(page, 390)
