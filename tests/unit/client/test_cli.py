"""The command reports results and errors, as text or as JSON."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from rolldeck.cli import FURTHER, SERVER_COMMANDS, VERBS, build_parser, main
from tests.unit.client.failing_server import Planned, Seen, serving

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "docs/reference/cli.md"
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
    "message": "100 sequences are not a multiple of the group size 8.",
    "remedy": "Use 96 or 104.",
}
REFUSED = {"result": "refused", "config": None, "findings": [FINDING], "seconds": 0.5}
READY = {"result": "ready", "findings": []}
WAITS = {
    "summary": "No trainer leases the queued batches.",
    "stage": "train",
    "evidence": [
        "9 fragments are queued, a batch takes 8",
        "no batch was leased in the last minute",
    ],
    "change": "Start the trainer.",
}
EVENTS = [
    {"at": "12:01", "level": "info", "kind": "paused", "actor": "user:alice", "message": "Paused."},
    {"at": "12:00", "level": "info", "kind": "started", "actor": "user:alice", "message": "Go."},
]


def platform(request: Seen) -> Planned:
    """Answer as the platform does."""
    path = request.path.partition("?")[0]
    if path.endswith("/missing/pause"):
        problem = {"status": 404, "code": "not_found", "detail": "No run is called missing."}
        return Planned(404, json.dumps(problem).encode())
    answers: dict[str, object] = {
        "/api/v1/runs/demo/pipeline": {"diagnosis": WAITS, "stages": []},
        "/api/v1/run-checks": REFUSED if b'"refused"' in request.body else {**REFUSED, **READY},
        "/api/v1/runs": {"results": [RUN], "next": None} if request.method == "GET" else RUN,
        "/api/v1/runs/demo/events": {"results": EVENTS, "next": None},
    }
    return Planned(body=json.dumps(answers.get(path, RUN)).encode())


def test_runs_are_listed_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "runs"]) == 0

    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["name", "kind", "status"]
    assert row.split()[:3] == ["demo", "fleet", "paused"]


def test_a_run_without_a_version_has_none_yet(capsys: pytest.CaptureFixture[str]) -> None:
    content = json.dumps({"results": [RUN | {"policy_step": -2}], "next": None}).encode()
    with serving(lambda _: Planned(body=content)) as server:
        assert main(["--url", server.url, "runs"]) == 0

    assert "  none yet  " in capsys.readouterr().out.splitlines()[1]


@pytest.mark.parametrize("argv", [["--json", "runs"], ["runs", "--json"]], ids=["before", "after"])
def test_answers_are_json_on_request(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, *argv]) == 0

    assert json.loads(capsys.readouterr().out) == [RUN]


def test_a_launch_sends_preset_name_and_overrides() -> None:
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


def test_a_launch_in_a_project_leaves_the_preset_to_it() -> None:
    with serving(platform) as server:
        to = ["--url", server.url]
        assert main([*to, "launch", "--name", "demo", "--project", "poles"]) == 0
        plain = ["--project", "poles", "--no-project-defaults"]
        assert main([*to, "launch", "--name", "demo", *plain]) == 0

    first, second = (json.loads(request.body) for request in server.seen)
    assert first == {"name": "demo", "project": "poles", "start": True}
    assert second == first | {"uses_project_defaults": False}


def test_runs_are_listed_by_project() -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "runs", "--project", "poles", "--status", "paused"]) == 0

    query = parse_qs(urlsplit(server.seen[0].path).query)
    assert query == {"status": ["paused"], "q": ['project:"poles"']}


@pytest.mark.parametrize("verb", ["pause", "resume", "drain", "stop", "kill"])
def test_every_verb_carries_its_reason(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, verb, "demo", "--reason", "lunch"]) == 0

    assert server.seen[0].path == f"/api/v1/runs/demo/{verb}"
    assert json.loads(server.seen[0].body) == {"reason": "lunch"}
    assert capsys.readouterr().out == "demo is paused (lunch)\n"


def test_a_diagnosis_is_printed_with_its_evidence_and_remedy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "why", "demo"]) == 0
        output = capsys.readouterr().out
        assert main(["--url", server.url, "--json", "why", "demo"]) == 0

    assert output.splitlines() == [
        "No trainer leases the queued batches.",
        "  9 fragments are queued, a batch takes 8",
        "  no batch was leased in the last minute",
        "What to do: Start the trainer.",
    ]
    assert json.loads(capsys.readouterr().out) == WAITS


def test_events_are_printed_oldest_first(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "events", "demo", "--limit", "2"]) == 0

    assert server.seen[0].path == "/api/v1/runs/demo/events?limit=2"
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == [
        "12:00",
        "12:01",
    ]


def test_events_of_some_kinds_are_printed_with_their_tracebacks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    event = EVENTS[0] | {
        "message": "Slot 3: KeyError: 'goal'\nof the observation",
        "details": {"slot": 3, "error": "Traceback:\n  step\nKeyError: 'goal'\n"},
    }
    page = json.dumps({"results": [event], "next": None}).encode()
    command = ["events", "demo", "--kinds", "slot_failed,slot_restarted"]
    with serving(lambda _: Planned(body=page)) as server:
        assert main(["--url", server.url, *command, "--details"]) == 0
        with_details = capsys.readouterr().out
        assert main(["--url", server.url, *command]) == 0

    assert "kinds=slot_failed%2Cslot_restarted" in server.seen[0].path
    assert with_details.splitlines()[-5:] == [
        "    slot: 3",
        "    error:",
        "      Traceback:",
        "        step",
        "      KeyError: 'goal'",
    ]
    assert "Traceback" not in capsys.readouterr().out


def test_events_beyond_a_page_are_read_from_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"at": f"{number:03}"} for number in range(400)]

    def paged(request: Seen) -> Planned:
        begin = 200 if "cursor=second" in request.path else 0
        page = {"results": rows[begin : begin + 200], "next": None if begin else "second"}
        return Planned(body=json.dumps(page).encode())

    with serving(paged) as server:
        assert main(["--url", server.url, "events", "demo", "--limit", "300"]) == 0

    assert [request.path.partition("?")[2] for request in server.seen] == [
        "limit=200",
        "limit=200&cursor=second",
    ]
    shown = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in shown] == [f"{n:03}" for n in range(299, -1, -1)]


def test_a_refusal_is_one_line_and_exit_code_one(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "pause", "missing"]) == 1

    assert capsys.readouterr().err == "rolldeck: No run is called missing. [404 not_found]\n"


def test_an_unreachable_platform_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_check_prints_remedies_and_fails_when_a_launch_would(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "check", "--name", "refused"]) == 1
        output = capsys.readouterr().out
        assert main(["--url", server.url, "check", "--name", "good", "--json"]) == 0

    assert output.splitlines() == [
        "refused after 0.5 s",
        "error   Batch (buffer.batch_size): 100 sequences are not a multiple of the group size 8.",
        "        Use 96 or 104.",
    ]
    assert json.loads(capsys.readouterr().out)["result"] == "ready"


def test_a_run_is_shown_with_its_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "--json", "show", "demo"]) == 0

    assert json.loads(capsys.readouterr().out)["name"] == "demo"


def test_the_reference_names_every_verb_and_its_route() -> None:
    page = REFERENCE.read_text("utf-8")

    for verb in VERBS:
        assert (
            f"| `rolldeck {verb} RUN [--reason WHY]` | `POST /api/v1/runs/{{run}}/{verb}` |" in page
        )


def test_any_request_of_the_api_can_be_sent(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(platform) as server:
        argv = ["--url", server.url, "api", "post", "runs/demo/pause"]
        assert main([*argv, "reason=a long lunch", "hours=2", 'tags=["a"]']) == 0
        assert (
            main(["--url", server.url, "api", "GET", "/api/v1/runs", "limit=3", "q=tag:a b"]) == 0
        )
        assert main([*argv, "hours=2", "--body", '{"reason": "x", "hours": 1}']) == 0

    assert [request.method for request in server.seen] == ["POST", "GET", "POST"]
    assert json.loads(server.seen[0].body) == {"reason": "a long lunch", "hours": 2, "tags": ["a"]}
    assert server.seen[1].path == "/api/v1/runs?limit=3&q=tag%3Aa+b"
    assert json.loads(server.seen[2].body) == {"reason": "x", "hours": 2}
    first, _ = json.JSONDecoder().raw_decode(capsys.readouterr().out)
    assert first == RUN


def test_a_body_is_read_from_a_file_or_from_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "body.json").write_text('[{"name": "a"}]')
    monkeypatch.setattr("sys.stdin", io.StringIO('{"name": "b"}'))
    with serving(platform) as server:
        argv = ["--url", server.url, "api", "PUT", "things"]
        assert main([*argv, "--body", f"@{tmp_path / 'body.json'}"]) == 0
        assert main([*argv, "--body", "-"]) == 0
        assert main([*argv, "name=c", "--body", "[1]"]) == 1, "a field has no place in a list"

    assert [json.loads(request.body) for request in server.seen] == [[{"name": "a"}], {"name": "b"}]


@pytest.mark.parametrize("words", [["LOOK", "runs"], ["GET", "runs", "x"], ["POST", "runs", "="]])
def test_an_invalid_request_is_misuse(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["api", *words])

    assert ended.value.code == 2


def test_the_examples_of_requests_have_fields_of_the_api() -> None:
    page = REFERENCE.read_text("utf-8")
    api = json.loads((REFERENCE.parent / "openapi.json").read_text("utf-8"))
    examples = re.findall(r"(?m)^rolldeck api ([A-Z]+) (\S+)(.*)$", page)

    assert len(examples) > 5
    for method, address, words in examples:
        operation = _operation(api, method, f"/api/v1/{address}")
        fields = set(re.findall(r"(?:^| )([a-z_]+)=", words))
        assert fields <= _fields(api, operation), (method, address)


def _operation(api: dict[str, Any], method: str, address: str) -> dict[str, Any]:
    """Return the operation at an address, whose parameters have any values."""
    for path, methods in api["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), address) and method.lower() in methods:
            found: dict[str, Any] = methods[method.lower()]
            return found
    raise AssertionError(f"no route {method} {address}")


def _fields(api: dict[str, Any], operation: dict[str, Any]) -> set[str]:
    """Return the names of an operation's query and body parameters."""
    names = {
        parameter["name"]
        for parameter in operation.get("parameters", [])
        if parameter["in"] == "query"
    }
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    shape = content.get("schema", {})
    if "$ref" in shape:
        shape = api["components"]["schemas"][shape["$ref"].rpartition("/")[2]]
    return names | set(shape.get("properties", {}))


def further_commands() -> dict[str, str]:
    """Return the declared commands of other packages; the installed ones may be older."""
    found: dict[str, str] = {}
    for file in (ROOT / "pyproject.toml", ROOT / "client" / "pyproject.toml"):
        project = tomllib.loads(file.read_text("utf-8"))["project"]
        found |= project["entry-points"][FURTHER]
    return found


def code_of(words: list[str]) -> tuple[str, list[str]]:
    """Return the Python code that runs a command, and the arguments of that code."""
    further = further_commands()
    module, _, function = further.get(words[0], "rolldeck.cli:main").partition(":")
    code = f"import sys; from {module} import {function}; sys.exit({function}(sys.argv[1:]))"
    return code, words[words[0] in further :]


def test_the_page_has_every_command_and_no_other() -> None:
    page = REFERENCE.read_text("utf-8")
    further = further_commands()
    parser = build_parser()
    choices = next(action.choices for action in parser._actions if isinstance(action.choices, dict))

    assert set(re.findall(r"`rolldeck ([a-z]+)", page)) == {*choices, *further}
    assert set(further) == {*SERVER_COMMANDS, "sequences"}


def test_options_on_the_page_are_those_of_the_commands() -> None:
    commands = re.findall(r"`(rolldeck ((?:[a-z]+ ?)+)[^`]*)`", REFERENCE.read_text("utf-8"))
    for command, words in commands:
        options = set(re.findall(r"--[a-z][a-z-]*", command))
        if not options:
            continue
        code, arguments = code_of(words.split())
        paths = map(str, (ROOT, ROOT / "platform", ROOT / "client"))
        shown = subprocess.run(
            [sys.executable, "-c", code, *arguments, "--help"],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert options <= set(re.findall(r"--[a-z][a-z-]*", shown)), command


def test_the_version_is_shown() -> None:
    shown = run_command("--version")

    assert shown.stdout == f"rolldeck {version('rolldeck')}\n"


def test_a_reader_that_ends_early_is_no_error() -> None:
    with serving(platform) as server:
        command = [sys.executable, "-m", "rolldeck.cli", "--url", server.url, "--json", "runs"]
        writer = subprocess.Popen(
            [*command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stderr is not None
        writer.stdout.close()
        errors = writer.stderr.read()
        writer.stderr.close()

        assert writer.wait(30) == 128 + signal.SIGPIPE
    assert errors == ""


def run_command(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "rolldeck.cli", *words], capture_output=True, text=True, check=True
    )


@pytest.mark.parametrize("command", sorted(SERVER_COMMANDS))
def test_a_command_of_the_server_names_the_packages_that_add_it(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rolldeck.cli.entry_points", lambda **_: [])

    assert main([command]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"rolldeck: `{command}` is a command of the server, which is not installed: "
        "pip install 'rolldeck[server]', or 'rolldeck[buffer]' without Ray and torch"
    )
