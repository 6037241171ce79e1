"""The command line against a server: its commands, errors, the profile and the checks."""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from rolldeck import Trainer, __version__
from tests.server import ADMIN_TOKEN, FOREIGN, NO_RAY, ROOT, Server, running_server, wait_until

GROUP = {"tokens": [[1, 2]], "masks": [[-100, 2]], "scores": [1.0]}
SOURCE = os.pathsep.join(map(str, (ROOT, ROOT / "platform", ROOT / "client")))


class Shown(NamedTuple):
    """Output and exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> Any:
        """The decoded output."""
        return json.loads(self.out)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("var"), RAY_ADDRESS=NO_RAY) as server:
        yield server


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


class Terminal:
    """A shell of a user with a home folder, signed in by variables or not."""

    def __init__(self, home: Path, server: Server | None) -> None:
        self.home = home
        foreign = (*FOREIGN, "XDG_", "DISPLAY", "WAYLAND_DISPLAY")
        own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        others = os.environ.get("PYTHONPATH", "")
        self.env = own | {"HOME": str(home), "PYTHONPATH": f"{SOURCE}{os.pathsep}{others}"}
        if server is not None:
            self.env |= {"ROLLDECK_URL": server.url, "ROLLDECK_TOKEN": ADMIN_TOKEN}

    def __call__(self, *words: str, given: str = "") -> Shown:
        done = subprocess.run(
            [sys.executable, "-m", "rolldeck.cli", *words],
            cwd=self.home,
            env=self.env,
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Shown(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def rolldeck(home: Path, server: Server) -> Terminal:
    return Terminal(home, server)


def outside_run(rolldeck: Terminal) -> str:
    name = f"run-{uuid4().hex[:6]}"
    assert rolldeck("run", "create", "--name", name, "--kind", "outside").code == 0
    return name


def test_a_run_lives_from_creation_to_its_end(rolldeck: Terminal) -> None:
    run = f"life-{uuid4().hex[:6]}"
    steps = [
        ("run create --name {run} --kind outside --tag wide", "{run} is running\n"),
        ("run ls --filter tag:wide --status running", r"name .*\n{run} +outside +running .*\n"),
        ("run show {run}", r"(?s)id +\d+\nuid +run_\w+\nname +{run}\n.*tags +\[\"wide\"\]\n.*"),
        ("run pause {run} --reason lunch", r"{run} is paused \(lunch\)\n"),
        ("run wait {run} --until paused", r"{run} is paused \(lunch\)\n"),
        ("run resume {run}", "{run} is running\n"),
        ("run why {run}", r"(?s).+\n"),
        ("run events {run} --limit 2", r"at .*\n.*running → paused\n.*paused → running\n"),
        ("run kill {run}", "{run} is stopped.*\n"),
        ("run wait {run}", "{run} is stopped.*\n"),
        ("run events {run} --follow --limit 1", r".* → stopped.*\n"),
        (
            "run delete {run} --reason test",
            r"{run} is deleted; the server removes 0 items in the background\n",
        ),
    ]
    for words, pattern in steps:
        shown = rolldeck(*words.format(run=run).split())
        assert (shown.code, shown.err) == (0, ""), words
        assert re.fullmatch(pattern.replace("{run}", run), shown.out), (words, shown.out)


def test_every_command_of_data_prints_json(rolldeck: Terminal) -> None:
    run = outside_run(rolldeck)
    commands = {
        "run ls": list,
        f"run show {run}": dict,
        f"run why {run}": dict,
        f"run pause {run}": dict,
        f"run events {run}": list,
        f"run wait {run} --until paused": dict,
        f"run check --name check-{run} --preset cartpole": dict,
        f"open {run}": dict,
        "token ls": list,
        f"token create --name {run} --scope read": dict,
        f"archive create {run} --wait": dict,
        f"archive ls {run}": list,
        f"api GET runs/{run}/queue": dict,
    }
    for words, kind in commands.items():
        shown = rolldeck(*words.split(), "--json")
        assert (shown.code, shown.err) == (0, ""), words
        assert type(shown.answer) is kind, words
    assert type(rolldeck("doctor", "--json").answer) is list  # its code is that of the parts


def test_a_file_describes_a_run_whose_configuration_is_shown(rolldeck: Terminal) -> None:
    name = f"pole-{uuid4().hex[:6]}"
    (rolldeck.home / "run.yaml").write_text(
        f"name: {name}\npreset: cartpole  # of the server\ntags: [a]\nseed: 4\n"
        "fleet:\n  num_workers: 2\n  device: cpu\n"
    )

    words = ["run", "create", "-f", "run.yaml", "--set", "fleet.num_workers=4", "--no-start"]
    made = rolldeck(*words, "--json").answer
    shown = rolldeck("run", "show", name).out

    config = made["config"]
    assert (made["status"], made["preset"], made["tags"]) == ("draft", "cartpole", ["a"])
    assert (config["seed"], config["fleet"]["num_workers"]) == (4, 4)
    assert config["fleet"]["device"] == "cpu"
    assert "\n  seed: 4\n" in shown
    assert "\n    num_workers: 4\n" in shown


def test_unknown_fields_have_their_line_and_the_nearest_name(rolldeck: Terminal) -> None:
    (rolldeck.home / "run.yaml").write_text(
        "name: pole\npresett: cartpole\nfleet:\n  num_worker: 4\n"
        "environment:\n  spec: gymnasium:CartPole-v1\n  kwarg: {}\n"
    )

    shown = rolldeck("run", "create", "-f", "run.yaml", "--set", "fleet.devise=cpu")

    assert (shown.code, shown.out) == (1, "")
    assert sorted(shown.err.splitlines()) == [
        "rolldeck: --set fleet.devise: unknown field; did you mean fleet.device?",
        "rolldeck: run.yaml:2: presett: unknown field; did you mean preset?",
        "rolldeck: run.yaml:4: fleet.num_worker: unknown field; did you mean fleet.num_workers?",
        "rolldeck: run.yaml:7: environment.kwarg: unknown field; did you mean environment.kwargs?",
    ]
    assert rolldeck("run", "show", "pole").code == 1, "nothing was created"


@pytest.mark.parametrize(
    "words",
    [
        "run show nope",
        "run pause nope",
        "run logs nope",
        "run wait nope",
        "archive ls nope",
        "open nope",
    ],
)
def test_an_unknown_run_is_one_line(words: str, rolldeck: Terminal) -> None:
    shown = rolldeck(*words.split())

    assert (shown.code, shown.out) == (1, "")
    assert shown.err == "rolldeck: run 'nope' not found [404 not_found]\n"


def test_a_log_that_no_fleet_has_is_one_line(rolldeck: Terminal) -> None:
    shown = rolldeck("run", "logs", outside_run(rolldeck))

    assert shown.code == 1
    (line,) = shown.err.splitlines()
    assert line.startswith("rolldeck: No manager is running")


def test_a_wait_ends_after_its_timeout(rolldeck: Terminal) -> None:
    run = outside_run(rolldeck)

    shown = rolldeck("run", "wait", run, "--until", "paused", "--timeout", "0")

    assert shown.code == 1
    assert shown.err == f"rolldeck: run {run} is running, not paused, after 0 s\n"


def test_a_token_is_created_used_and_revoked(rolldeck: Terminal, server: Server) -> None:
    run = outside_run(rolldeck)
    words = ["token", "create", "--name", run, "--scope", "read", "--run", run, "--expires", "2h"]
    secret = rolldeck(*words).out.strip()

    (row,) = [row for row in rolldeck("token", "ls", "--json").answer if row["name"] == run]
    assert (row["scopes"], row["run"], row["revoked_at"]) == (["read"], run, None)
    assert row["expires_at"] is not None
    assert re.search(rf"(?m)^{row['id']} +{run} ", rolldeck("token", "ls").out)
    assert rolldeck("--token", secret, "run", "show", run).code == 0
    revoked = rolldeck("token", "revoke", str(row["id"]), "--reason", "left the team")
    assert revoked.out == f"token {row['id']} is revoked\n"
    assert rolldeck("--token", secret, "run", "show", run).code == 1


def test_an_archive_is_written_downloaded_and_deleted(rolldeck: Terminal, server: Server) -> None:
    run = outside_run(rolldeck)
    assert rolldeck("api", "POST", f"runs/{run}/groups", "--body", json.dumps([GROUP])).code == 0
    with Trainer(server.url, run, ADMIN_TOKEN) as trainer:
        trainer.register(batch_size=1)
        batch = trainer.next_batch()
        assert batch is not None
        trainer.ack(batch)

    made = rolldeck("archive", "create", run, "--wait", "--json").answer
    number = str(made["id"])
    assert made["state"] == "done"
    assert rolldeck("archive", "download", run, number).out.startswith(f"{run}-{number}.parquet: ")
    file = rolldeck.home / f"{run}-{number}.parquet"
    assert file.read_bytes()[:4] == b"PAR1"
    shown = rolldeck("archive", "sequences", file.name, "--out", "rows.parquet")
    assert (shown.code, shown.out) == (0, "rows.parquet: 1 sequence\n")
    assert rolldeck("archive", "delete", run, number).out == f"archive {number} is deleted\n"
    assert rolldeck("archive", "download", run, number).code == 1
    assert [path.name for path in rolldeck.home.glob(".*.part")] == []


def test_a_sign_in_is_stored_for_its_user_only(home: Path, server: Server) -> None:
    rolldeck = Terminal(home, None)
    assert "Connection refused" in rolldeck("run", "ls", "--url", "http://127.0.0.1:9").err

    refused = rolldeck("login", "--url", server.url, given="wrong\n")
    assert refused.code == 1
    assert refused.err.splitlines() == [
        f"Create a token at {server.url}/tokens",
        f"rolldeck: {server.url} does not accept this token; nothing was stored",
    ]
    signed_in = rolldeck("login", "--url", f"{server.url}/", given=f"{ADMIN_TOKEN}\n")
    file = home / ".config/rolldeck/profile.toml"
    assert signed_in.out == (
        f"Signed in to {server.url} (version {__version__}); stored in {file}\n"
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert rolldeck("run", "ls").code == 0
    client = "from rolldeck import Client; print(len(list(Client().runs.list())) >= 0)"
    done = subprocess.run(
        [sys.executable, "-c", client], env=rolldeck.env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"


def test_variables_win_over_the_profile(home: Path, server: Server) -> None:
    rolldeck = Terminal(home, None)
    assert rolldeck("login", "--url", server.url, "--token", ADMIN_TOKEN).code == 0

    rolldeck.env["ROLLDECK_TOKEN"] = "wrong"
    assert "[401 not_authenticated]" in rolldeck("run", "ls").err
    del rolldeck.env["ROLLDECK_TOKEN"]
    rolldeck.env["ROLLDECK_URL"] = "http://127.0.0.1:9"
    assert "http://127.0.0.1:9: Connection refused" in rolldeck("run", "ls").err


@pytest.mark.parametrize("text", ["{", "url = 3\n", 'url = "http://a"\n'])
def test_a_broken_profile_is_one_line_that_names_it(text: str, home: Path, server: Server) -> None:
    file = home / ".config/rolldeck/profile.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    rolldeck = Terminal(home, None)

    shown = rolldeck("run", "ls")

    assert shown.code == 1
    (line,) = shown.err.splitlines()
    assert line.startswith(f"rolldeck: {file}: ")
    assert "run `rolldeck login` again" in line
    assert rolldeck("login", "--url", server.url, given=ADMIN_TOKEN).code == 0, "it is replaced"


def test_the_doctor_checks_every_part(rolldeck: Terminal) -> None:
    def healthy() -> Shown | None:
        found = rolldeck("doctor")
        return found if re.search(r"(?m)^ok +jobs ", found.out) else None

    # The answer of the job workers is waited for at most a second.
    shown = wait_until(healthy, seconds=60, what="the job workers answer")

    parts = ["server", "ready", "versions", "token", "clock", "database", "Redis", "jobs", "disk"]
    for part in parts:
        assert re.search(rf"(?m)^ok +{part} ", shown.out), shown.out
    # This server has the address of a cluster that does not run, which may not be probed yet.
    remedy = "Start Ray, or correct RAY_ADDRESS"
    assert re.search(rf"(?m)^(failed|warning) +Ray .*\n +{remedy}", shown.out)
    assert shown.code == int("\nfailed" in shown.out)


def test_the_doctor_names_the_remedy_without_server_or_token(
    rolldeck: Terminal, server: Server
) -> None:
    rolldeck.env["ROLLDECK_TOKEN"] = "wrong"
    stranger = rolldeck("doctor", "--json")
    rolldeck.env["ROLLDECK_URL"] = "http://127.0.0.1:9"
    alone = rolldeck("doctor", "--json")

    assert (stranger.code, alone.code) == (1, 1)
    *_, token = stranger.answer
    assert (token["check"], token["result"]) == ("token", "failed")
    assert token["remedy"].startswith("Run `rolldeck login`")
    assert alone.answer == [
        {
            "check": "server",
            "result": "failed",
            "message": "http://127.0.0.1:9: Connection refused",
            "remedy": "Start the server with `rolldeck up`, or set ROLLDECK_URL to its address.",
        }
    ]


def test_a_page_of_a_run_has_an_address(rolldeck: Terminal, server: Server) -> None:
    run = outside_run(rolldeck)

    assert rolldeck("open", run).out == f"{server.url}/runs/{run}\n"


def test_an_active_run_is_not_deleted(rolldeck: Terminal) -> None:
    run = outside_run(rolldeck)

    shown = rolldeck("run", "delete", run, "--reason", "test")

    assert shown.code == 1
    assert shown.err.startswith(f"rolldeck: {run} is running: stop or kill it before you delete it")
    assert rolldeck("run", "delete", run).code == 2, "a reason is required"
    assert rolldeck("run", "show", run).code == 0
