"""The command reports results and errors, as text or as JSON."""

import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from rolldeck.cli import COMMANDS, SERVER_COMMANDS, main
from rolldeck.cli_reference import page
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
        assert main(["--url", server.url, "run", "ls"]) == 0

    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["name", "kind", "status"]
    assert row.split()[:3] == ["demo", "fleet", "paused"]


def test_a_run_without_a_version_has_none_yet(capsys: pytest.CaptureFixture[str]) -> None:
    content = json.dumps({"results": [RUN | {"policy_step": -2}], "next": None}).encode()
    with serving(lambda _: Planned(body=content)) as server:
        assert main(["--url", server.url, "run", "ls"]) == 0

    assert "  none yet  " in capsys.readouterr().out.splitlines()[1]


@pytest.mark.parametrize(
    "argv", [["--json", "run", "ls"], ["run", "ls", "--json"]], ids=["before", "after"]
)
def test_answers_are_json_on_request(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, *argv]) == 0

    assert json.loads(capsys.readouterr().out) == [RUN]


def test_a_new_run_has_the_fields_of_the_options() -> None:
    words = ["run", "create", "--preset", "cartpole", "--name", "demo", "--tag", "a", "--tag", "b"]
    settings = ["--set", "seed=3", "--set", "environment.spec=lab:Maze", "--set", "a.b.c=[1]"]

    with serving(platform) as server:
        assert main(["--url", server.url, "--token", "rd_x", *words, *settings]) == 0

    assert json.loads(server.seen[0].body) == {
        "name": "demo",
        "preset": "cartpole",
        "tags": ["a", "b"],
        "start": True,
        "config": {"seed": 3, "environment": {"spec": "lab:Maze"}, "a": {"b": {"c": [1]}}},
    }
    assert server.seen[0].headers["Authorization"] == "Bearer rd_x"


def test_a_file_has_fields_and_configuration_and_options_win(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("name: one\npreset: cartpole\nfleet: {num_workers: 2, device: cpu}\nseed: 1\n")
    words = ["run", "create", "-f", str(file), "--set", "fleet.num_workers=4", "--no-start"]

    with serving(platform) as server:
        assert main(["--url", server.url, *words]) == 0
        assert main(["--url", server.url, *words, "--name", "two", "--set", "preset=lunar"]) == 0

    first, second = (json.loads(request.body) for request in server.seen)
    assert first == {
        "name": "one",
        "preset": "cartpole",
        "start": False,
        "config": {"fleet": {"num_workers": 4, "device": "cpu"}, "seed": 1},
    }
    assert second == first | {"name": "two", "preset": "lunar"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\nfleet:\n  x: [1\n", ":4: expected ',' or ']', but got '<stream end>'"),
        ("name: a\nname: b\n", ':2: found duplicate key "name" with value "b"'),
        ("- name\n", ": not a mapping of fields such as 'preset: cartpole'"),
        ("", ": not a mapping of fields such as 'preset: cartpole'"),
        ("name: a\nfleet:\n  day: 2026-11-29\n", ":3: fleet.day is a date; quote it"),
        ("name: a\nfleet:\n  1: x\n", ":3: the key 1 is no text; write it in quotes"),
    ],
)
def test_a_file_with_a_fault_is_refused_with_its_line(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)

    assert main(["run", "create", "-f", str(file)]) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"rolldeck: {file}{message.partition(' with')[0]}")


def test_a_run_in_a_project_leaves_the_preset_to_it() -> None:
    with serving(platform) as server:
        to = ["--url", server.url, "run", "create", "--name", "demo", "--project", "poles"]
        assert main(to) == 0
        assert main([*to, "--no-project-defaults"]) == 0

    first, second = (json.loads(request.body) for request in server.seen)
    assert first == {"name": "demo", "project": "poles", "start": True}
    assert second == first | {"uses_project_defaults": False}


def test_runs_are_listed_by_project() -> None:
    with serving(platform) as server:
        assert (
            main(["--url", server.url, "run", "ls", "--project", "poles", "--status", "paused"])
            == 0
        )

    query = parse_qs(urlsplit(server.seen[0].path).query)
    assert query == {"status": ["paused"], "q": ['project:"poles"']}


@pytest.mark.parametrize("verb", ["pause", "resume", "drain", "stop", "kill"])
def test_every_verb_carries_its_reason(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "run", verb, "demo", "--reason", "lunch"]) == 0

    assert server.seen[0].path == f"/api/v1/runs/demo/{verb}"
    assert json.loads(server.seen[0].body) == {"reason": "lunch"}
    assert capsys.readouterr().out == "demo is paused (lunch)\n"


def test_a_diagnosis_is_printed_with_its_evidence_and_remedy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "run", "why", "demo"]) == 0
        output = capsys.readouterr().out
        assert main(["--url", server.url, "--json", "run", "why", "demo"]) == 0

    assert output.splitlines() == [
        "No trainer leases the queued batches.",
        "  9 fragments are queued, a batch takes 8",
        "  no batch was leased in the last minute",
        "What to do: Start the trainer.",
    ]
    assert json.loads(capsys.readouterr().out) == WAITS


def test_events_are_printed_oldest_first(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "run", "events", "demo", "--limit", "2"]) == 0

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
    command = ["run", "events", "demo", "--kinds", "slot_failed,slot_restarted"]
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
        assert main(["--url", server.url, "run", "events", "demo", "--limit", "300"]) == 0

    assert [request.path.partition("?")[2] for request in server.seen] == [
        "limit=200",
        "limit=200&cursor=second",
    ]
    shown = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in shown] == [f"{n:03}" for n in range(299, -1, -1)]


def test_a_refusal_is_one_line_and_exit_code_one(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "run", "pause", "missing"]) == 1

    assert capsys.readouterr().err == "rolldeck: No run is called missing. [404 not_found]\n"


def test_an_unreachable_platform_is_one_line_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    assert main(["--url", "http://127.0.0.1:9", "run", "ls"]) == 1

    assert time.monotonic() - began < 5
    assert capsys.readouterr().err == (
        "rolldeck: http://127.0.0.1:9: Connection refused; "
        "start it with `rolldeck up`, or set ROLLDECK_URL\n"
    )


def test_the_environment_names_platform_and_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(platform) as server:
        monkeypatch.setenv("ROLLDECK_URL", server.url)
        monkeypatch.setenv("ROLLDECK_TOKEN", "rd_env")
        assert main(["run", "ls"]) == 0

    assert server.seen[0].headers["Authorization"] == "Bearer rd_env"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("runs", "rolldeck: No such command 'runs'. Did you mean run?"),
        ("run lss", "rolldeck run: No such command 'lss'. Did you mean ls or logs?"),
        ("run create", "rolldeck run create: the run needs a name: --name, or `name` in the file"),
        ("run create --nme x", "rolldeck run create: No such option '--nme'."),
        ("run create --name x --set fleet", "rolldeck run create: --set fleet: not FIELD=VALUE"),
        ("run create --name x --set a=1 --set a.b=1", "--set a.b=1: a is 1, not a section"),
        ("run create -f missing.yaml", "File 'missing.yaml' does not exist."),
        ("run show", "rolldeck run show: Missing argument 'RUN'."),
        ("run events demo --limit 0", "rolldeck run events: Invalid value for '--limit'"),
        ("token create --name x", "rolldeck token create: Missing option '--scope'."),
        ("token create --name x --scope read --expires 3", "'3' is not a duration such as 30d"),
        ("archive sequences", "rolldeck archive sequences: Missing argument 'FILE'."),
        ("api LOOK runs", "'LOOK' is not one of 'get', 'post', 'put', 'patch', 'delete'."),
        ("api GET runs x", "rolldeck api: Invalid value for '[FIELD=VALUE]...': 'x' is not FIELD"),
        ("api POST runs =", "'=' is not FIELD=VALUE"),
        ("api POST runs a=1 --body [1]", "rolldeck api: fields need a JSON object as body"),
        ("completion tcsh", "'tcsh' is not one of 'bash', 'zsh', 'fish'."),
        ("up --only web", "rolldeck up: Invalid value for '--only': 'web' is not 'buffer'."),
        ("demo poker", "'poker' is not one of 'cartpole', 'grpo'."),
        ("serve --port 1", "rolldeck: `serve` is now `rolldeck inference`"),
    ],
)
def test_misuse_is_one_line_and_exit_code_two(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert "--help`)" in line


@pytest.mark.parametrize("words", [[], ["run"], ["token"]])
def test_a_group_without_a_command_shows_its_help(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2

    assert f"Usage: {' '.join(['rolldeck', *words])} [OPTIONS] COMMAND" in capsys.readouterr().err


def test_a_check_prints_remedies_and_fails_when_a_launch_would(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "run", "check", "--name", "refused"]) == 1
        output = capsys.readouterr().out
        assert main(["--url", server.url, "run", "check", "--name", "good", "--json"]) == 0

    assert output.splitlines() == [
        "refused after 0.5 s",
        "error   Batch (buffer.batch_size): 100 sequences are not a multiple of the group size 8.",
        "        Use 96 or 104.",
    ]
    assert json.loads(capsys.readouterr().out)["result"] == "ready"


def test_a_run_is_shown_with_its_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(platform) as server:
        assert main(["--url", server.url, "--json", "run", "show", "demo"]) == 0

    assert json.loads(capsys.readouterr().out)["name"] == "demo"


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

    assert [json.loads(request.body) for request in server.seen] == [[{"name": "a"}], {"name": "b"}]


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


def test_the_reference_is_that_of_the_commands() -> None:
    assert page() == REFERENCE.read_text("utf-8"), "run make schema"


def test_the_help_has_every_command_within_a_third_of_a_second() -> None:
    seconds = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        shown = run_command("--help").stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # Processor time: other processes of the machine do not count.
        seconds.append(
            after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime,
        )

    assert {name for name in [*COMMANDS, *SERVER_COMMANDS] if f"  {name} " not in shown} == set()
    assert min(seconds) <= 0.3


def test_the_help_imports_neither_numpy_nor_an_http_library() -> None:
    code = (
        "import sys; from rolldeck.cli import main; main(['--help']);"
        "print({'numpy', 'urllib3', 'msgspec', 'ruamel', 'django'} & {*sys.modules})"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], env=OWN, capture_output=True, text=True, check=True
    )

    assert shown.stdout.splitlines()[-1] == "set()"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_names_of_runs(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    assert "_ROLLDECK_COMPLETE" in capsys.readouterr().out

    with serving(platform) as server:
        told = {"ROLLDECK_URL": server.url, "_ROLLDECK_COMPLETE": "bash_complete"}
        verbs = run_command(**told, COMP_WORDS="rolldeck run pa", COMP_CWORD="2").stdout
        runs = run_command(**told, COMP_WORDS="rolldeck run pause d", COMP_CWORD="3").stdout

    assert (verbs, runs) == ("plain,pause\n", "plain,demo\n")


def test_the_version_is_shown() -> None:
    shown = run_command("--version")

    assert shown.stdout == f"rolldeck {version('rolldeck')}\n"


def test_a_reader_that_ends_early_is_no_error() -> None:
    with serving(platform) as server:
        command = [sys.executable, "-m", "rolldeck.cli", "--url", server.url, "--json", "run", "ls"]
        writer = subprocess.Popen(
            [*command], env=OWN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stderr is not None
        writer.stdout.close()
        errors = writer.stderr.read()
        writer.stderr.close()

        assert writer.wait(30) == 128 + signal.SIGPIPE
    assert errors == ""


OWN = os.environ | {
    "PYTHONPATH": os.pathsep.join(
        [*map(str, (ROOT, ROOT / "platform", ROOT / "client")), os.environ.get("PYTHONPATH", "")]
    )
}


def run_command(*words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "rolldeck.cli", *words],
        env=OWN | more,
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.parametrize("command", sorted(SERVER_COMMANDS))
def test_a_command_of_the_server_names_the_packages_that_add_it(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rolldeck.cli.find_spec", lambda _: None)

    assert main([command, "--port", "1"]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"rolldeck: `{command}` is a command of the server, which is not installed: "
        "pip install 'rolldeck[server]', or 'rolldeck[buffer]' without Ray and torch "
        "(see `rolldeck --help`)"
    )


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("up --only fleet", "rolldeck up: Invalid value for '--only': 'fleet' is not 'buffer'."),
        ("demo grpo --limit-seconds x", "rolldeck demo: Invalid value for '--limit-seconds'"),
        ("inference", "rolldeck inference: Missing option '--checkpoint'."),
        (
            "inference --checkpoint x --dtype int8",
            "rolldeck inference: Invalid value for '--dtype'",
        ),
        ("proxy --run a", "rolldeck proxy: Missing option '--upstream'."),
        ("rollout --episodes 0", "rolldeck rollout: Invalid value for '--episodes'"),
        ("evaluate --checkpoint x", "rolldeck evaluate: Missing option '--lessons'."),
        ("evaluate polcy", "rolldeck evaluate: No such command 'polcy'. Did you mean policy?"),
        ("evaluate policy --episode 1", "rolldeck evaluate policy: No such option '--episode'"),
        ("--json rollout", "rolldeck rollout: give one of --episodes, --env-steps, --seconds"),
    ],
)
def test_misuse_of_a_command_of_the_server_is_one_line(
    words: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2

    (found,) = capsys.readouterr().err.splitlines()
    assert found.startswith(line)


@pytest.mark.parametrize("name", sorted({*SERVER_COMMANDS} - {"up", "demo", "admin", "ray"}))
def test_commands_of_the_server_print_json_where_they_print_figures(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help"]) == 0

    assert "--json" in capsys.readouterr().out
