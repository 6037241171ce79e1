"""Links from an extreme episode to the fragment that holds it."""

import re

import pytest
from playwright.sync_api import Page, expect

from rolldeck import wire
from tests.api.rollouts.episodes.test_episode_fragments import cut
from tests.buffer_factories import push
from tests.e2e.conftest import in_the_shell
from tests.server import Server

pytestmark = [pytest.mark.browser, pytest.mark.system]
RUN = "short-lived"
WINDOW = """
from django.utils import timezone
from rollouts.models import EpisodeWindow
from runs.models import Run
run = Run.objects.get(name="short-lived")
means = dict.fromkeys(["return_mean", "return_p10", "return_p50", "return_p90"], 4.0)
EpisodeWindow.objects.create(
    run=run, at=timezone.now(), environment="gymnasium:CartPole-v1", worker=0, mode="train",
    seconds=600.0, count=3, return_sum=12.0, return_min=1.0, return_max=9.0, **means,
    discounted_return_mean=0.0, length_mean=4.0, length_max=9, terminated=2, truncated=1,
    aborted=0, returns=[2.0, 9.0, 1.0], lengths=[2, 9, 1], policy_step=0,
    incarnation="a", slots=[0] * 6, numbers=[1, 2, 3, 3, 2, 2])
Run.objects.filter(pk=run.pk).update(status="stopped")
"""


@pytest.fixture(scope="module")
def fragments(server: Server) -> list[int]:
    """Store episodes of returns 2, 9 and 1, the second one in two fragments."""
    server.post(
        "/api/v1/runs", {"name": server.free_name(RUN), "preset": "cartpole", "start": False}
    )
    in_the_shell(
        server,
        "from runs.models import Run; Run.objects.filter(name='short-lived')"
        ".update(status='paused', epoch=1, policy_step=0)",
    )
    pushed = push(
        cut("w0-0@a", 0, ("w0-0@a/1", 2, "terminated"), ("w0-0@a/2", 4, ""), begins=True),
        cut(
            *("w0-0@a", 1, ("w0-0@a/2", 5, "terminated"), ("w0-0@a/3", 1, "truncated")),
            begins=False,
        ),
    )
    answer = server.http.post(
        f"/api/v1/runs/{RUN}/fragments",
        content=pushed,
        headers={"Content-Type": wire.FRAGMENTS_TYPE},
    )
    assert answer.status_code == 200, answer.text
    in_the_shell(server, WINDOW)
    rows = server.get(f"/api/v1/runs/{RUN}/fragments")["results"]
    return [row["id"] for row in rows][::-1]


def test_an_extreme_episode_links_to_its_fragments(
    signed_in: Page, server: Server, fragments: list[int]
) -> None:
    page = signed_in
    page.goto(f"/runs/{RUN}/episodes?span=3600")
    page.locator("[data-find=highest]").first.get_by_role("button", name="View episode").click()

    expect(page).to_have_url(re.compile(f"/fragments/{fragments[0]}\\?.*step=2"))
    marked = page.get_by_label("Episodes", exact=True).locator("[aria-current]")
    expect(marked).to_have_count(1)
    expect(marked).to_contain_text("2 – 5")
    page.keyboard.press("]")
    expect(page).to_have_url(re.compile(f"/fragments/{fragments[1]}\\?"))
    expect(marked).to_contain_text("0 – 4")

    page.go_back()
    page.go_back()
    page.locator("[data-find=lowest]").first.get_by_role("button", name="View episode").click()
    expect(page).to_have_url(re.compile(f"/fragments/{fragments[1]}\\?.*step=5"))
    expect(marked).to_contain_text("5 – 5")


def test_the_fragments_of_an_extreme_episode_are_listed_alone(
    signed_in: Page, server: Server, fragments: list[int]
) -> None:
    page = signed_in
    page.goto(f"/runs/{RUN}/episodes?span=3600")
    page.locator("[data-find=lowest]").first.get_by_role("link", name="Its fragments").click()

    expect(page).to_have_url(re.compile(r"/trajectories\?episode="))
    rows = page.locator("[data-fragment]")
    expect(rows).to_have_count(1)
    expect(rows).to_have_attribute("data-fragment", str(fragments[1]))
    page.get_by_role("button", name="Remove episode: w0-0@a/3").click()
    expect(rows).to_have_count(2)
