"""A run exported as one page: complete, bounded and read-only."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest
from django.test import Client

from buffer.inspect.rules.group_filter import GroupFilter
from buffer.items.models import TrajectoryGroup
from frontend.bundles import parts
from runs.lifecycle.models import Run
from tests.buffer_factories import group
from tests.factories import NOON, bearer, make_run, make_user
from tests.live_server import serving

pytestmark = pytest.mark.django_db(transaction=True)

HOSTILE = "</script><script>document.title='owned'</script><!--<script>\u2028 &amp; \u202e"


class Opened(HTMLParser):
    """Parsed page: its scripts with their attributes, and all loaded resources."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.loads: list[str] = []
        self.policy = ""
        self._is_inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "script":
            self._is_inside = True
            self.scripts.append((named, ""))
        if named.get("http-equiv") == "Content-Security-Policy":
            self.policy = named["content"] or ""
        self.loads += [value or "" for name, value in attrs if name in {"src", "href"}]

    def handle_endtag(self, tag: str) -> None:
        self._is_inside &= tag != "script"

    def handle_data(self, data: str) -> None:
        if self._is_inside:
            named, before = self.scripts[-1]
            self.scripts[-1] = (named, before + data)

    def parts(self, kind: str) -> list[Any]:
        return [json.loads(text) for named, text in self.scripts if named.get("data-part") == kind]


@pytest.fixture
def run() -> Run:
    return make_run(name="demo", kind="outside", status="running")


def push(run: Run, *groups: dict[str, Any]) -> None:
    answer = Client().post(
        "/atropos/demo/scored_data_list",
        json.dumps(list(groups)).encode(),
        "application/json",
        headers=bearer("env", run=run),
    )
    assert answer.status_code == 200, answer.content


def write_down(run: Run, name: str, *values: float | str) -> None:
    samples = [{"name": name, "step": step, "value": value} for step, value in enumerate(values)]
    answer = Client().post(
        "/api/v1/runs/demo/metrics",
        json.dumps({"samples": samples}),
        "application/json",
        headers=bearer("trainer", run=run),
    )
    assert answer.status_code == 201, answer.content


def request_bundle(run: Run, **query: Any) -> Any:
    return Client().get("/api/v1/runs/demo/bundle", query, headers=bearer("read", run=run))


def bundled(run: Run, **query: Any) -> Opened:
    answer = request_bundle(run, **query)
    assert answer.status_code == 200, answer.content
    return Opened(b"".join(answer.streaming_content).decode())


def talk(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": text}]


def test_the_page_contains_the_api_data_of_the_run(run: Run) -> None:
    push(run, group(mark=5) | {"scores": [0.0, 1.0], "messages": [talk("because"), talk("so")]})
    write_down(run, "loss", 3.0, 0.5, "NaN", 1.25)

    page = bundled(run)

    (about,), (line,), (one,), (end,) = (
        page.parts(kind) for kind in ("run", "metric", "group", "end")
    )
    shown = Client().get("/api/v1/runs/demo", headers=bearer("read", run=run)).json()
    assert about["run"] == shown
    whole = next(row for row in about["ledgers"] if not row["environment"])
    assert (whole["kind"], whole["accepted"], whole["balanced"]) == ("groups", 1, True)
    assert (line["name"], line["samples"], line["nans"]) == ("loss", 4, 1)
    assert line["last"] == [3.0, 0.5, None, 1.25]
    first, second = one["sequences"]
    assert [part["summary"]["score"] for part in (first, second)] == [0.0, 1.0]
    assert first["conversation"]["results"][1]["parts"][0]["text"] == "because"
    assert first["window"]["tokens"] == [5, 1, 2]
    assert end == {"metrics": 1, "groups": 1, "is_cut": False}


def test_data_of_a_run_stays_inside_its_script_block(run: Run) -> None:
    push(run, group(mark=5) | {"messages": [talk(HOSTILE), talk("x")]})

    page = bundled(run)

    runs_something = [text for named, text in page.scripts if "type" not in named]
    assert len(runs_something) == 1
    assert {named.get("type") for named, _ in page.scripts} == {None, "application/json"}
    (group_part,) = page.parts("group")
    text = group_part["sequences"][0]["conversation"]["results"][1]["parts"][0]["text"]
    assert text == HOSTILE


def test_the_policy_of_the_page_allows_its_own_script_only(run: Run) -> None:
    page = bundled(run)

    (script,) = (text for named, text in page.scripts if "type" not in named)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in page.policy
    assert page.policy.startswith("default-src 'none'; ")
    assert "unsafe" not in page.policy
    assert page.loads == []
    assert re.findall(r"\b(?:innerHTML|outerHTML|insertAdjacentHTML|eval|fetch)\b", script) == []


def test_the_number_of_groups_is_limited(run: Run) -> None:
    push(run, *(group(mark=mark) | {"scores": [0.0, 1.0]} for mark in range(5)))

    assert len(bundled(run, groups=2).parts("group")) == 2
    assert bundled(run, groups=0).parts("group") == []
    assert bundled(run, score_min=0.9).parts("group") == []
    assert request_bundle(run, groups=parts.GROUPS_AT_MOST + 1).status_code == 400


def test_large_contents_are_included_in_part(run: Run) -> None:
    long = group(mark=5, tokens=parts.TOKENS + 500)
    push(run, long | {"messages": [talk("y" * 400_000), talk("short")]}, group(mark=6))

    _, group_part = bundled(run).parts("group")

    first, _ = group_part["sequences"]
    assert len(first["window"]["tokens"]) == parts.TOKENS
    assert first["window"]["total"] == parts.TOKENS + 500
    answer = first["conversation"]["results"][1]
    (text,) = answer["parts"]
    assert (len(text["text"]), answer["characters"]) == (parts.CHARACTERS[0], 400_000)


def bounded(run: Run, **bounds: int) -> Opened:
    made = parts.bundle(run, GroupFilter(), groups=5, now=NOON, bounds=parts.Bounds(**bounds))
    return Opened(b"".join(made).decode())


def test_the_size_of_a_group_and_of_the_page_is_limited(run: Run) -> None:
    push(run, group(mark=5, tokens=2000), group(mark=6))

    small, large = bounded(run, group_bytes=4000).parts("group")
    assert {part["window"] for part in large["sequences"]} == {None}
    assert {part["summary"]["tokens"] for part in large["sequences"]} == {2000}
    assert [len(part["window"]["tokens"]) for part in small["sequences"]] == [3, 3]

    page = bounded(run, groups_bytes=4000)
    assert [part["id"] for part in page.parts("group")] == [small["id"]]
    assert page.parts("end")[0]["is_cut"]


def test_a_group_without_stored_bytes_has_a_reason(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(drop_zero_variance=True)
    push(run, group(mark=5))

    (group_part,) = bundled(run).parts("group")

    assert (group_part["state"], group_part["sequences"]) == ("dropped", [])
    assert group_part["missing"].endswith("they were not stored")


def test_all_metrics_are_included(run: Run) -> None:
    names = [f"metric-{number:03d}" for number in range(parts.LINES_AT_ONCE + 3)]
    for name in names:
        write_down(run, name, 1.0, 2.0)

    page = bundled(run)

    assert [line["name"] for line in page.parts("metric")] == names
    assert page.parts("run")[0]["metrics"] == len(names)


def test_a_web_server_streams_the_page_as_a_file(run: Run) -> None:
    push(run, group(mark=5))

    with serving() as address:
        answer = httpx.get(
            f"{address}/api/v1/runs/demo/bundle", headers=bearer("read", run=run), timeout=60
        )

    assert answer.headers["Content-Disposition"] == 'attachment; filename="demo.html"'
    assert answer.text.endswith("</body>\n</html>\n")
    assert len(Opened(answer.text).parts("group")) == 1


def test_notes_and_marks_are_included_as_text(run: Run) -> None:
    push(run, *(group(mark=mark) | {"scores": [0.0, 1.0]} for mark in (5, 6)))
    olga = Client()
    olga.force_login(make_user(username="olga", role="operator"))

    def change(method: str, path: str, **body: Any) -> None:
        send = getattr(olga, method)
        answer = send(f"/api/v1/runs/demo/{path}", body, content_type="application/json")
        assert answer.status_code == 200, answer.content

    change("put", "notes", text=f"# Why\n{HOSTILE}", revision=0)
    change("put", "labels/3", name="reward hack")
    newest = TrajectoryGroup.objects.order_by("-pk")[0].pk
    change("post", "marks", groups=[newest], label=3, note=HOSTILE)

    page = bundled(run)

    ((about,), (first, second)) = (page.parts("run"), page.parts("group"))
    assert about["notes"]["text"] == f"# Why\n{HOSTILE}"
    assert about["notes"]["author"]
    assert about["marks"] == [
        {"kind": "label", "name": "3 reward hack", "groups": 1},
    ]
    assert (first["mark"], first["note"]) == (["label 3 reward hack"], HOSTILE)
    assert (second["mark"], second["note"]) == ([], "")
    assert len([text for named, text in page.scripts if "type" not in named]) == 1
