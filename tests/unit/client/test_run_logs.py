"""Logs of a run: the newest lines, and those that follow until the run ends."""

import json

import pytest

from rolldeck import Client
from rolldeck.errors import NotFoundError
from tests.unit.client.failing_server import Planned, Seen, serving

STATUSES = ["running", "running", "running", "completed"]


def log_of(*lines: str, state: str = "read") -> Planned:
    log = {"state": state, "note": "the fleet has not answered", "lines": list(lines)}
    return Planned(200, json.dumps(log).encode())


@pytest.mark.parametrize(
    ("logs", "lines"),
    [
        pytest.param([["a", "b"]] * 4, ["a", "b"], id="nothing new"),
        pytest.param([["a"], ["a", "b"], ["a", "b", "c"], ["b", "c"]], ["a", "b", "c"], id="grows"),
        pytest.param(
            [["a", "b"], ["b", "c"], ["c", "d"], ["d", "e"]], list("abcde"), id="moves on"
        ),
        pytest.param([["a", "a"], ["a", "a"], ["a", "b"], ["b"]], ["a", "a", "b"], id="repeats"),
        pytest.param([["a"], ["x"], ["x"], ["y"]], ["a", "x", "y"], id="another worker"),
        pytest.param([["a"], None, ["a", "b"], ["b"]], ["a", "b"], id="a silent fleet in between"),
    ],
)
def test_further_lines_follow_until_the_run_ends(
    logs: list[list[str] | None], lines: list[str]
) -> None:
    statuses, ends = iter(["draft", *STATUSES]), iter(logs)

    def answer(request: Seen) -> Planned:
        if "/fleet/logs" in request.path:
            end = next(ends)
            return log_of(state="silent") if end is None else log_of(*end)
        return Planned(200, json.dumps({"name": "pole", "status": next(statuses)}).encode())

    with serving(answer) as server, Client(server.url) as client:
        run = client.runs.get("pole")
        assert list(run.logs(follow=True, poll_seconds=0)) == lines


def test_a_log_that_is_not_answered_is_an_error() -> None:
    def answer(request: Seen) -> Planned:
        if "/fleet/logs" in request.path:
            return log_of(state="silent")
        return Planned(200, b'{"name": "pole", "status": "running"}')

    with serving(answer) as server, Client(server.url) as client:
        lines = client.runs.get("pole").logs(worker=1, slot=2)
        with pytest.raises(NotFoundError, match="the fleet has not answered"):
            next(lines)
    assert server.seen[-1].path.endswith("/fleet/logs?lines=1000&worker=1&slot=2")
