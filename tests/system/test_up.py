"""`manage.py up` starts and stops all servers, and keeps its data private."""

import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import psycopg
import pytest

from benchmarks.processes import descendants, is_waiting_spare
from tests import processes
from tests.initial_database import copy_database
from tests.login_links import redeem
from tests.processes import wait_until_gone
from tests.server import (
    ADMIN_TOKEN,
    NO_RAY,
    ROOT,
    Server,
    environment,
    free_port,
    in_a_shell,
    wait_until,
)

pytestmark = pytest.mark.system

# Enough for a loaded machine; the server's own log shows the real duration.
READY_SECONDS = 120
UP = [sys.executable, "manage.py", "up"]


def start(var: Path, port: int, **more: str) -> Server:
    var.mkdir(parents=True, exist_ok=True)
    with (var / "up.log").open("ab") as log:
        process = processes.start(
            UP, cwd=ROOT, env=environment(var, port, **more), stdout=log, stderr=log
        )
    return Server(var, port, process)


@contextmanager
def ready_server(var: Path, port: int, **more: str) -> Iterator[Server]:
    server = start(var, port, **more)
    try:
        wait_until(server.is_ready, seconds=READY_SECONDS, what="the server is ready")
        yield server
    finally:
        server.http.close()
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A shared server without runs, with a body limit of one megabyte; tests do not change it."""
    var = tmp_path_factory.mktemp("shared")
    copy_database(var / "postgres")
    more = {"ROLLDECK_MAX_BODY_BYTES": "1000000", "RAY_ADDRESS": NO_RAY}
    with ready_server(var, free_port(), **more) as server:
        yield server


def wait_until_every_part_is_ready(server: Server, *, starts: int = 1) -> None:
    """Wait for the "Ready on" line, which the log has once for each start in the same folder."""
    log = server.var / "up.log"
    wait_until(
        lambda: log.read_text().count("Ready on") >= starts,
        seconds=READY_SECONDS,
        what="every part is ready",
    )


def refused(var: Path, port: int, **more: str) -> str:
    """Return the output of a server that must fail to start."""
    done = processes.run(
        UP,
        cwd=ROOT,
        env=environment(var, port, **more),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def living(var: Path) -> list[str]:
    """Return the command lines of processes that belong to the server in `var`."""
    results = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            variables = (entry / "environ").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            line = (entry / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if f"ROLLDECK_VAR={var}\0".encode() in variables and state != "Z":
            results.append(line)
    return results


def socket_folders(var: Path) -> list[str]:
    note = var / "run" / "sockets"
    return [note.read_text()] if note.exists() else []


@pytest.mark.full("four starts, the first with every migration")
def test_a_stopped_or_killed_server_leaves_no_process_and_keeps_its_data(
    tmp_path: Path,
) -> None:
    port = free_port()
    with ready_server(tmp_path, port) as server:
        server.post("/api/v1/runs", {"kind": "outside", "name": "before-the-stop"})
        wait_until_every_part_is_ready(server)
        wait_until(
            lambda: "createsuperuser" in server.log(), seconds=READY_SECONDS, what="the first user"
        )
        sockets = socket_folders(tmp_path)
        asked_at = time.monotonic()
        server.process.send_signal(signal.SIGTERM)

        # About 3 s on an idle machine. Processes that do not end are killed: after 3 s those of the
        # platform, after 3 s more the servers.
        assert server.process.wait(60) == 0
        assert time.monotonic() - asked_at < 12
    wait_until(lambda: not living(tmp_path), seconds=60, what="nothing lives")
    assert not Path(sockets[0]).exists()
    assert not (tmp_path / "run" / "services.json").exists()

    with ready_server(tmp_path, port) as server:
        wait_until_every_part_is_ready(server, starts=2)
        assert server.get("/api/v1/runs/before-the-stop")["kind"] == "outside"
        server.post("/api/v1/runs", {"kind": "outside", "name": "before-the-kill"})
        server.process.kill()
        server.process.wait()
        wait_until(lambda: not living(tmp_path), seconds=30, what="no process is left")

    with ready_server(tmp_path, port, RAY_ADDRESS=NO_RAY) as server:
        names = {run["name"] for run in server.get("/api/v1/runs")["results"]}
        assert names == {"before-the-stop", "before-the-kill"}


@pytest.mark.full("a server of its own for commands")
def test_the_commands_that_are_printed_work_in_another_terminal(tmp_path: Path) -> None:
    var = tmp_path / "a folder's name"
    var.mkdir()
    copy_database(var / "postgres")
    with ready_server(var, free_port(), RAY_ADDRESS=NO_RAY) as server:
        # The line after "Ready on": the server prints one at a time.
        printed = wait_until(
            lambda: re.search(r"^  (.+ createsuperuser)$", server.log(), re.MULTILINE),
            seconds=READY_SECONDS,
            what="the command is printed",
        )
        assert printed is not None
        in_a_shell(
            f"{printed[1]} --noinput --username ada --email ada@example.org",
            DJANGO_SUPERUSER_PASSWORD="a-password-for-tests",
        )
        link = in_a_shell(printed[1].replace("createsuperuser", "login_link ada"))

        assert link.startswith(f"{server.url}/login/once#")
        with httpx.Client(timeout=60) as browser:
            assert redeem(browser, link).status_code == 302
            known = browser.get(f"{server.url}/api/v1/session").json()
            assert (known["username"], known["role"]) == ("ada", "admin")


def test_each_part_that_dies_is_restarted(tmp_path: Path) -> None:
    copy_database(tmp_path / "postgres")
    with ready_server(tmp_path, free_port(), RAY_ADDRESS=NO_RAY) as server:
        wait_until_every_part_is_ready(server)
        for words in [
            ("config.web",),
            ("celery", "worker"),
            ("celery", "beat"),
            ("valkey-server",),
            ("/postgres", "-D"),
        ]:
            first = server.children(*words)[0]
            os.kill(first, signal.SIGKILL)
            wait_until(
                lambda words=words, first=first: (
                    first not in server.children(*words) and server.children(*words)
                ),
                seconds=60,
                what=f"{words} runs again",
            )
        wait_until(server.is_ready, seconds=60, what="the server is ready again")
        log = (tmp_path / "up.log").read_text()
        assert log.count("; restarting ") == 5
        assert "Traceback" not in log
        names = {"web", "jobs", "beat", "valkey", "postgres"}

        def recorded() -> dict[str, str]:
            exits = server.get("/api/v1/cluster")["exits"]
            return {row["part"]: row["reason"] for row in exits}

        # Those of PostgreSQL's outage are stored afterwards.
        wait_until(lambda: set(recorded()) == names, seconds=60, what="every exit is recorded")
        assert recorded() == {name: f"{name} ended (signal SIGKILL)" for name in names}


def test_a_connection_waits_while_the_web_process_starts_again(shared: Server) -> None:
    wait_until_every_part_is_ready(shared)
    web = shared.children("config.web")[0]
    os.kill(web, signal.SIGKILL)
    wait_until_gone(web)

    assert shared.get("/api/v1/runs")["results"] == []


def test_a_spare_takes_the_place_of_killed_web_processes(shared: Server) -> None:
    wait_until_every_part_is_ready(shared)

    def spares() -> set[int]:
        lines = descendants(shared.process.pid).items()
        return {pid for pid, line in lines if is_waiting_spare(pid, line)}

    wait_until(spares, seconds=180, what="a spare waits")
    (spare,) = spares()
    for pid in shared.children("config.web"):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: spare in shared.children("config.web"), seconds=60, what="the spare works")

    assert shared.get("/api/v1/runs")["results"] == []
    wait_until(lambda: spares() - {spare}, seconds=60, what="another spare waits")


def test_two_servers_never_share_a_folder(shared: Server) -> None:
    message = refused(shared.var, free_port())

    assert f"process {shared.process.pid}" in message
    assert str(shared.var) in message
    assert shared.is_ready()


def test_another_folder_on_the_same_database_is_refused(shared: Server, tmp_path: Path) -> None:
    used = json.loads((shared.var / "run" / "services.json").read_text())
    servers = {name: used[name] for name in ("DATABASE_URL", "REDIS_URL")}

    message = refused(tmp_path, free_port(), RAY_ADDRESS=NO_RAY, **servers)

    assert f"{tmp_path}/payloads has no deployment id" in message
    assert f"{shared.var}/payloads" in message
    assert shared.is_ready()


def test_folders_are_bound_to_the_database_of_a_stopped_server(tmp_path: Path) -> None:
    copy_database(tmp_path / "postgres")
    done = processes.run(
        [sys.executable, "manage.py", "bind_folders"],
        cwd=ROOT,
        env=environment(tmp_path, free_port()),
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    marks = {(tmp_path / name / ".deployment").read_text() for name in ("payloads", "media")}
    assert done.stdout.startswith(f"deployment {marks.pop()}: ")
    assert not marks


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        assert f"127.0.0.1:{port}" in refused(tmp_path, port)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, "ROLLDECK_AUTH"),
        (
            {"ROLLDECK_AUTH": "required", "ROLLDECK_SECRET_KEY": "insecure-only-for-loopback"},
            "ROLLDECK_SECRET_KEY",
        ),
        ({"ROLLDECK_AUTH": "required", "ROLLDECK_DEBUG": "1"}, "ROLLDECK_DEBUG"),
    ],
)
def test_a_server_that_the_network_could_misuse_does_not_start(
    tmp_path: Path, more: dict[str, str], expected: str
) -> None:
    assert expected in refused(tmp_path, free_port(), ROLLDECK_HOST="0.0.0.0", **more)


@pytest.mark.parametrize(
    ("name", "reason"), [("no-such-user", "has no such user"), ("root", "which is root")]
)
def test_a_wrong_user_of_environment_code_is_refused(
    tmp_path: Path, name: str, reason: str
) -> None:
    lines = refused(tmp_path, free_port(), ROLLDECK_ENVIRONMENT_USER=name)

    assert f"ROLLDECK_ENVIRONMENT_USER is {name!r}" in lines
    assert reason in lines


def test_data_of_another_postgresql_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir(mode=0o700)
    (tmp_path / "postgres" / "PG_VERSION").write_text("11\n")

    assert "PostgreSQL 11" in refused(tmp_path, free_port())


def test_a_bootstrap_token_that_is_too_short_is_refused(tmp_path: Path) -> None:
    copy_database(tmp_path / "postgres")
    assert "16" in refused(tmp_path, free_port(), ROLLDECK_BOOTSTRAP_TOKEN="short")


def test_secrets_are_for_this_user_only(shared: Server) -> None:
    for name in ("secret_key", "run/services.json"):
        assert (shared.var / name).stat().st_mode & 0o077 == 0
    for name in ("run", "log", "payloads"):
        assert (shared.var / name).stat().st_mode & 0o777 == 0o700
    # PostgreSQL, which may run as another user, passes through the folder.
    others = 0o011 if os.getuid() == 0 else 0
    assert shared.var.stat().st_mode & 0o777 == 0o700 | others
    assert ADMIN_TOKEN not in shared.log()


@pytest.mark.full("a second server beside the first")
def test_configured_servers_replace_the_embedded_ones(shared: Server, tmp_path: Path) -> None:
    folder, database = socket_folders(shared.var)[0], f"second_{uuid4().hex[:6]}"
    server = f"postgresql:///postgres?host={folder}&user=rolldeck"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}")
    own = {
        "DATABASE_URL": f"postgresql:///{database}?host={folder}&user=rolldeck",
        "REDIS_URL": f"unix://{folder}/valkey.sock",
        "RAY_ADDRESS": NO_RAY,
        "ROLLDECK_WEB_WORKERS": "2",
    }
    with ready_server(tmp_path, free_port(), **own) as second:
        wait_until_every_part_is_ready(second)
        second.post("/api/v1/runs", {"kind": "outside", "name": "elsewhere"})

        assert second.children("ray.scripts") == []
        assert second.children("valkey-server") == []
        assert second.children("postgres", "-D") == []
        assert shared.get("/api/v1/runs")["results"] == []


def test_a_body_above_the_limit_is_answered(shared: Server) -> None:
    answer = shared.http.post("/api/v1/runs", content=b"x" * 3_000_000)

    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert shared.is_ready()
