"""The command says what happened, to people or as JSON, and says what went wrong."""

import json
from pathlib import Path

import pytest

from rolldeck.cli import VERBS, main
from tests.unit.client.failing_server import Planned, Seen, serving

RUN = {
    "name": "demo",
    "kind": "fleet",
    "status": "paused",
    "status_reason": "lunch",
    "served_steps": 7,
    "policy_step": 7,
    "created_at": "2026-11-21T12:00:00Z",
}
FINDING = {
    "level": "error",
    "subject": "Batch",
    "field": "buffer.batch_size",
    "message": "100 sequences are no whole number of groups of 8.",
    "remedy": "Take 96 or 104.",
}
REFUSED = {"verdict": "refused", "config": None, "findings": [FINDING], "seconds": 0.5}
READY = {"verdict": "ready", "findings": []}
WAITS = {
    "sentence": "No trainer takes the batches that wait.",
    "stage": "train",
    "proof": ["9 fragments wait, a batch takes 8", "none was handed out in the last minute"],
    "change": "Start the trainer.",
}
EVENTS = [
    {"at": "12:01", "level": "info", "kind": "paused", "actor": "user:alice", "message": "Paused."},
    {"at": "12:00", "level": "info", "kind": "started", "actor": "user:alice", "message": "Go."},
]


def platform(request: Seen) -> Planned:
    """Answer as the platform does."""
    path = request.path.partition("?")[0]
    if path.endswith("/gone/pause"):
        problem = {"status": 404, "code": "not_found", "detail": "No run is called gone."}
        return Planned(404, json.dumps(problem).encode())
    answers: dict[str, object] = {
        "/api/runs/demo/pipeline": {"verdict": WAITS, "stages": []},
        "/api/run-checks": REFUSED if b'"refused"' in request.body else {**REFUSED, **READY},
        "/api/runs": {"results": [RUN]} if request.method == "GET" else RUN,
        "/api/runs/demo/events": {"results": EVENTS},
    }
    return Planned(body=json.dumps(answers.get(path, RUN)).encode())


def test_runs_are_listed_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "runs"]) == 0

    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["name", "kind", "status"]
    assert row.split()[:3] == ["demo", "fleet", "paused"]


@pytest.mark.parametrize("argv", [["--json", "runs"], ["runs", "--json"]], ids=["before", "after"])
def test_answers_are_json_on_request(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, *argv]) == 0

    assert json.loads(capsys.readouterr().out) == [RUN]


def test_a_launch_sends_preset_name_and_what_is_merged_over_it() -> None:
    command = ["launch", "--preset", "cartpole", "--name", "demo", "--config", '{"seed": 3}']

    with serving(platform) as server:
        assert main(["--url", server.url, "--token", "rd_x", *command]) == 0

    assert json.loads(server.seen[0].body) == {
        "name": "demo",
        "preset": "cartpole",
        "start": True,
        "config": {"seed": 3},
    }
    assert server.seen[0].headers["Authorization"] == "Bearer rd_x"


@pytest.mark.parametrize("verb", ["pause", "resume", "drain", "stop", "kill"])
def test_every_verb_carries_its_reason(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, verb, "demo", "--reason", "lunch"]) == 0

    assert server.seen[0].path == f"/api/runs/demo/{verb}"
    assert json.loads(server.seen[0].body) == {"reason": "lunch"}
    assert capsys.readouterr().out == "demo is paused (lunch)\n"


def test_what_holds_a_run_up_comes_with_its_proof_and_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "why", "demo"]) == 0
        said = capsys.readouterr().out
        assert main(["--url", server.url, "--json", "why", "demo"]) == 0

    assert said.splitlines() == [
        "No trainer takes the batches that wait.",
        "  9 fragments wait, a batch takes 8",
        "  none was handed out in the last minute",
        "What to do: Start the trainer.",
    ]
    assert json.loads(capsys.readouterr().out) == WAITS


def test_events_read_downwards_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "events", "demo", "--limit", "2"]) == 0

    assert server.seen[0].path == "/api/runs/demo/events?limit=2"
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == [
        "12:00",
        "12:01",
    ]


def test_a_refusal_is_one_line_and_exit_code_one(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "pause", "gone"]) == 1

    assert capsys.readouterr().err == "rolldeck: No run is called gone. [404 not_found]\n"


def test_a_platform_that_is_not_there_is_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--url", "http://127.0.0.1:9", "--retry-for", "0", "runs"]) == 1

    assert "http://127.0.0.1:9" in capsys.readouterr().err


def test_the_environment_names_platform_and_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(platform) as server:
        monkeypatch.setenv("ROLLDECK_URL", server.url)
        monkeypatch.setenv("ROLLDECK_TOKEN", "rd_env")
        assert main(["runs"]) == 0

    assert server.seen[0].headers["Authorization"] == "Bearer rd_env"


@pytest.mark.parametrize(
    "argv", [[], ["launch"], ["launch", "--preset", "c", "--name", "n", "--config", "[]"]]
)
def test_misuse_is_exit_code_two(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)

    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_a_check_says_what_to_do_and_fails_when_a_launch_would(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "check", "--name", "refused"]) == 1
        said = capsys.readouterr().out
        assert main(["--url", server.url, "check", "--name", "good", "--json"]) == 0

    assert said.splitlines() == [
        "refused after 0.5 s",
        "error   Batch (buffer.batch_size): 100 sequences are no whole number of groups of 8.",
        "        Take 96 or 104.",
    ]
    assert json.loads(capsys.readouterr().out)["verdict"] == "ready"


def test_a_run_is_shown_with_its_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "--json", "show", "demo"]) == 0

    assert json.loads(capsys.readouterr().out)["name"] == "demo"


def test_a_run_is_saved_as_one_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "demo.html"
    with serving(platform) as server:
        argv = ["--url", server.url, "bundle", "demo", "--groups", "7", "--out", str(target)]
        assert main(argv) == 0
        nowhere = str(tmp_path / "missing" / "demo.html")
        assert main(["--url", server.url, "bundle", "demo", "--out", nowhere]) == 1

    assert server.seen[0].path == "/api/runs/demo/bundle?groups=7"
    said = capsys.readouterr()
    assert said.out.startswith(f"{target}: {target.stat().st_size:,} bytes")
    assert "No such file" in said.err


def test_the_reference_names_every_verb_and_its_route() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/cli.md").read_text(encoding="utf-8")

    for verb in VERBS:
        assert f"| `rolldeck {verb} RUN [--reason WHY]` | `POST /api/runs/{{run}}/{verb}` |" in page
