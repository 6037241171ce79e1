"""Links to episodes: their transcripts, the fragments that hold them, and the worst first."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from rolldeck import wire
from tests.api.rollouts.episodes.test_episode_fragments import cut
from tests.buffer_factories import push
from tests.e2e.conftest import in_the_shell
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]
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
    rows = server.get(f"/api/v1/trajectories?run={RUN}&kind=fragment")["results"]
    return [int(row["id"]) for row in rows][::-1]


def found(page: Page, value: int) -> Locator:
    """Open the list of the episodes with this return, and return its only row."""
    page.goto(f"/runs/{RUN}/trajectories?kind=episode&q=score:>={value} score:<={value}")
    rows = page.locator("[data-sample]")
    expect(rows).to_have_count(1)
    return rows


def test_an_episode_links_to_its_fragments(
    signed_in: Page, server: Server, fragments: list[int]
) -> None:
    page = signed_in
    page.goto(f"/runs/{RUN}/fragments/{fragments[0]}?step=2&episode=w0-0@a/2")
    marked = page.get_by_role("table", name="Episodes").locator("[aria-current]")
    expect(marked).to_have_count(1)
    expect(marked).to_contain_text("2 – 5")
    page.keyboard.press("]")
    expect(page).to_have_url(re.compile(f"/fragments/{fragments[1]}\\?"))
    expect(marked).to_contain_text("0 – 4")


def test_the_fragments_of_an_episode_are_listed_alone(
    signed_in: Page, server: Server, fragments: list[int]
) -> None:
    page = signed_in
    page.goto(f"/runs/{RUN}/trajectories?q=episode:w0-0@a/3")

    rows = page.locator("[data-sample]")
    expect(rows).to_have_count(1)
    expect(rows).to_have_attribute("data-sample", str(fragments[1]))
    page.get_by_role("combobox", name="Filter samples").fill("")
    expect(rows).to_have_count(2)


def test_an_episode_of_two_fragments_is_one_transcript(
    signed_in: Page, server: Server, fragments: list[int]
) -> None:
    page = signed_in
    page.set_viewport_size({"width": 1440, "height": 900})
    found(page, 9).get_by_role("link", name="Episode 2 of w0-0").click()

    expect(page.get_by_role("article", name="Episode w0-0@a/2")).to_be_visible()
    expect(page.locator("[data-return]")).to_have_text("9")
    expect(page.get_by_text("terminated").first).to_be_visible()
    curves = page.get_by_role("region", name="Return", exact=True)
    expect(curves.locator("canvas")).to_be_visible()
    box = curves.bounding_box()
    assert box
    assert box["y"] <= 260, box
    step = page.locator("[data-step]")
    expect(step).to_contain_text("begins")
    expect(step).to_contain_text("Fragment0")
    slider = page.get_by_role("slider", name="Step", exact=True)
    slider.press("End")
    expect(page).to_have_url(re.compile("step=8"))
    expect(step).to_contain_text("terminated")
    # The first step in the second fragment, after four in the first one.
    for _ in range(4):
        slider.press("ArrowLeft")
    expect(page).to_have_url(re.compile("step=4"))
    expect(step).to_contain_text("Fragment1")

    parts = page.get_by_role("table", name="Fragments")
    expect(parts.locator("tbody tr")).to_have_count(2)
    parts.get_by_role("link").nth(1).click()
    expect(page).to_have_url(re.compile(f"/fragments/{fragments[1]}\\?"))
    page.get_by_role("table", name="Episodes").get_by_role("link", name="Transcript").first.click()
    expect(page.get_by_role("article", name="Episode w0-0@a/2")).to_be_visible()


def test_a_distribution_filters_the_episodes_by_return_and_environment(
    signed_in: Page, server: Server, fragments: list[int]
) -> None:
    page = signed_in
    page.goto(f"/runs/{RUN}/trajectories?sort=score")
    page.get_by_role("button", name="Distribution").click()
    bars = page.get_by_role("group", name=re.compile("^Bars"))
    bars.get_by_role("button", name=re.compile("to 9: 1 episode$")).click()
    expect(page.locator("[data-sample]")).to_have_count(1)
    expect(page.locator("[data-sample]")).to_contain_text("Episode 2 of w0-0")
    bars.get_by_role("button", pressed=True).click()
    page.get_by_role("button", name="gymnasium:CartPole-v1").click()

    expect(page).to_have_url(re.compile(r"kind=episode.*sort=score|sort=score.*kind=episode"))
    expect(page).to_have_url(re.compile("q=env"))
    rows = page.locator("[data-sample]")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("Episode 3 of w0-0")
    page.get_by_role("button", name="Return").click()  # highest return first
    expect(rows.nth(0)).to_contain_text("Episode 2 of w0-0")
    page.get_by_role("combobox", name="Filter samples").fill("env:absent")
    expect(page.get_by_text("No matching episodes")).to_be_visible()
    expect(page).to_have_url(re.compile("q=env"))


def test_an_episode_that_is_not_stored_is_refused_with_a_reason(
    signed_in: Page, server: Server, fragments: list[int]
) -> None:
    page = signed_in
    page.goto(f"/runs/{RUN}/transcript?episode=w0-0@a/77")

    expect(page.get_by_text("no stored fragment holds the episode w0-0@a/77")).to_be_visible()
