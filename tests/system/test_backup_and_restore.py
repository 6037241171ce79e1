"""A running deployment is backed up, and a second one restored from it serves all its data."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from safetensors.numpy import save

from config.embedded.children import postgres_folder
from config.embedded.postgres import Postgres
from rolldeck.followers import Follower
from rolldeck.tensor_store import TensorStore, Value
from tests.buffer_factories import REGISTRATION, group
from tests.server import ADMIN_TOKEN, NO_RAY, ROOT, Server, environment, free_port, running_server

pytestmark = [pytest.mark.system, pytest.mark.full("starts, loads and kills servers for minutes")]

LARGE_TOKENS = 2_000
WEIGHTS = save({"w": np.arange(6, dtype=np.float32)})
TENSORS = {
    name: Value(np.arange(size, dtype=np.float32)) for name, size in (("small", 3), ("large", 5000))
}
# A group of a few tokens is stored in the database, one of two thousand as an object.
SERVER = {"RAY_ADDRESS": NO_RAY, "ROLLDECK_INLINE_PAYLOAD_BYTES": "1000"}


def manage(var: Path, *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        env=environment(var, free_port(), **(SERVER | more)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def done(finished: "subprocess.CompletedProcess[str]") -> str:
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def refused(finished: "subprocess.CompletedProcess[str]") -> str:
    assert finished.returncode == 1, finished.stdout
    assert "Traceback" not in finished.stderr
    return finished.stderr


def push(server: Server, mark: int, *, tokens: int) -> None:
    server.post("/scored_data", group(mark=mark, sequences=1, tokens=tokens))


def trained_marks(server: Server) -> list[tuple[int, int]]:
    """Return (mark, tokens) of all groups, served until none are left."""
    got = []
    while batch := server.get("/batch")["batch"]:
        got += [(group["tokens"][0][0], len(group["tokens"][0])) for group in batch]
    return got


def publish(server: Server) -> None:
    epoch = server.get("/api/v1/runs/default")["epoch"]
    described = {
        "epoch": epoch,
        "step": 0,
        "sha256": hashlib.sha256(WEIGHTS).hexdigest(),
        "size_bytes": len(WEIGHTS),
        "tensors": [{"name": "w", "dtype": "F32", "shape": [6]}],
    }
    answer = server.http.post(
        "/api/v1/runs/default/weights",
        data={"manifest": json.dumps(described)},
        files={"weights": ("weights", WEIGHTS)},
    )
    assert answer.status_code == 201, answer.text


@contextmanager
def pushing(server: Server, first: int) -> Iterator[list[int]]:
    """Push groups of both sizes during the block; the list holds the acknowledged marks."""
    marks: list[int] = []
    is_over = threading.Event()

    def keep_pushing() -> None:
        with httpx.Client(base_url=server.url, headers=server.http.headers, timeout=30) as http:
            for mark in range(first, first + 100_000):
                tokens = LARGE_TOKENS if mark % 2 else 3
                body = group(mark=mark, sequences=1, tokens=tokens)
                if is_over.is_set() or http.post("/scored_data", json=body).status_code != 200:
                    return
                marks.append(mark)
                time.sleep(0.02)

    pusher = threading.Thread(target=keep_pushing, daemon=True)
    pusher.start()
    try:
        yield marks
    finally:
        is_over.set()
        pusher.join(60)


def tensors(server: Server) -> TensorStore:
    return TensorStore(server.url, "default", ADMIN_TOKEN)


def eve(server: Server) -> Follower:
    return Follower(server.url, "default", ADMIN_TOKEN, name="eve")


def read_on(follower: Follower, *, count: int) -> list[int]:
    """Read and acknowledge up to `count` groups; return their marks."""
    marks: list[int] = []
    while len(marks) < count and (items := follower.fetch(min(3, count - len(marks)))) is not None:
        marks += [group["tokens"][0][0] for group in items.groups]
        follower.ack(items)
    return marks


@pytest.fixture(scope="module")
def backed_up(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A backup made during pushes, with the server's data before it."""
    room = tmp_path_factory.mktemp("backup")
    known: dict[str, Any] = {"room": room, "folder": room / "backup", "var": room / "var"}
    with running_server(room / "var", **SERVER) as server:
        server.post("/register", {**REGISTRATION, "batch_size": 1, "num_steps": 1_000_000})
        publish(server)
        with tensors(server) as store:
            for name, value in TENSORS.items():
                store.put({name: value})
        for mark in range(1, 9):
            push(server, mark, tokens=LARGE_TOKENS if mark % 2 else 3)
        first = server.get("/batch")["batch"]
        known["served"] = [group["tokens"][0][0] for group in first]
        with eve(server) as follower:
            follower.begin(start="earliest")
            known["followed"] = read_on(follower, count=5)
        objects = [path for path in (room / "var" / "payloads").rglob("*") if path.is_file()]
        assert objects, "nothing was large enough to become an object"
        with pushing(server, 1000) as acknowledged:
            while len(acknowledged) < 10:
                time.sleep(0.05)
            known["before"] = list(acknowledged)
            known["output"] = manage(room / "var", "backup", str(room / "backup"))
            known["running"] = manage(room / "var", "restore_backup", str(room / "backup"))
        known["pushed"] = list(acknowledged)
    return known


def test_a_restored_server_serves_the_accepted_data(
    backed_up: dict[str, Any], tmp_path: Path
) -> None:
    assert "1 runs" in done(backed_up["output"])
    assert "complete: " in done(manage(tmp_path, "backup", "--check", str(backed_up["folder"])))

    output = done(manage(tmp_path / "var", "restore_backup", str(backed_up["folder"])))

    assert "every ledger balances" in output
    with running_server(tmp_path / "var", **SERVER) as server:
        ledger = server.get("/api/v1/runs/default/ledger")["groups"]
        assert ledger["balanced"]
        got = trained_marks(server)
        # Acknowledged groups are kept, byte for byte, in either storage; leased ones are served
        # again.
        expected = {*range(1, 9), *backed_up["before"]}
        marks = [mark for mark, _ in got]
        assert expected <= {*marks, *backed_up["served"]}
        assert len(marks) == len(set(marks))
        assert set(marks) <= {*range(1, 9), *backed_up["pushed"]}
        assert {tokens for mark, tokens in got if mark % 2} == {LARGE_TOKENS}
        after = server.get("/api/v1/runs/default/ledger")
        assert (after["groups"]["balanced"], after["groups"]["queued"]) == (True, 0)
        assert server.http.get("/api/v1/runs/default/weights/1/0").content == WEIGHTS
        with tensors(server) as store:
            found = store.read(list(TENSORS))
        assert {name: value.array.tolist() for name, value in found.items()} == {
            name: value.array.tolist() for name, value in TENSORS.items()
        }
        with eve(server) as follower:
            rest = read_on(follower, count=10_000)
        assert expected - set(backed_up["followed"]) <= set(rest)
        # It works like any server: new items follow the restored ones.
        for mark in range(5000, 5004):
            push(server, mark, tokens=LARGE_TOKENS)
        assert [mark for mark, _ in trained_marks(server)] == [5000, 5001, 5002, 5003]
        with eve(server) as follower:
            assert read_on(follower, count=10) == [5000, 5001, 5002, 5003]
        assert len(server.get("/api/v1/audit?kind=server_restored")["results"]) == 1


def test_a_restore_overwrites_nothing(backed_up: dict[str, Any], tmp_path: Path) -> None:
    folder = str(backed_up["folder"])
    assert "a server already runs" in refused(backed_up["running"])

    assert "holds 1 runs" in refused(manage(backed_up["var"], "restore_backup", folder))
    assert "already exists" in refused(manage(backed_up["var"], "backup", folder))

    stranger = tmp_path / "var" / "payloads" / "7" / "somebodys"
    stranger.parent.mkdir(parents=True)
    stranger.write_bytes(b"bytes")
    assert "7/somebodys" in refused(manage(tmp_path / "var", "restore_backup", folder))
    assert stranger.read_bytes() == b"bytes"


def test_an_incomplete_backup_is_refused_before_anything_is_written(
    backed_up: dict[str, Any], tmp_path: Path
) -> None:
    backup: Path = backed_up["folder"]
    damaged = shutil.copytree(backup, tmp_path / "damaged")
    payload_file = next(path for path in (damaged / "payloads").rglob("*") if path.is_file())
    payload_file.write_bytes(payload_file.read_bytes()[:-1] + b"?")
    cut = shutil.copytree(backup, tmp_path / "cut")
    lines = (cut / "manifest.jsonl").read_bytes().splitlines(keepends=True)
    (cut / "manifest.jsonl").write_bytes(b"".join(lines[:-1]))
    newer = shutil.copytree(backup, tmp_path / "newer")
    text = (newer / "manifest.jsonl").read_text()
    head, _, rest = text.partition("\n")
    described = json.loads(head)
    described["migrations"].append("runs.9999_the_future")
    body = json.dumps(described) + "\n" + rest[: rest.rindex("{")]
    end = json.loads(rest[rest.rindex("{") :])
    end["sha256"] = hashlib.sha256(body.encode()).hexdigest()
    (newer / "manifest.jsonl").write_text(body + json.dumps(end, separators=(",", ":")) + "\n")

    var = tmp_path / "var"
    assert payload_file.name in refused(manage(var, "restore_backup", str(damaged)))
    assert "incomplete" in refused(manage(var, "restore_backup", str(cut)))
    assert "runs.9999_the_future" in refused(manage(var, "restore_backup", str(newer)))
    assert "not a backup" in refused(manage(var, "restore_backup", str(tmp_path)))
    assert not (var / "payloads").exists()


def changed(backup: Path, target: Path, **fields: Any) -> str:
    """Copy a backup with other fields in the first line of its manifest."""
    shutil.copytree(backup, target)
    head, _, rest = (backup / "manifest.jsonl").read_text().partition("\n")
    body = json.dumps(json.loads(head) | fields) + "\n" + rest[: rest.rindex("{")]
    end = json.loads(rest[rest.rindex("{") :])
    end["sha256"] = hashlib.sha256(body.encode()).hexdigest()
    text = body + json.dumps(end, separators=(",", ":")) + "\n"
    (target / "manifest.jsonl").write_text(text)
    return str(target)


def test_a_backup_of_a_later_server_is_refused_before_anything_is_written(
    backed_up: dict[str, Any], tmp_path: Path
) -> None:
    described = json.loads((backed_up["folder"] / "manifest.jsonl").read_text().partition("\n")[0])
    later = changed(backed_up["folder"], tmp_path / "later", postgresql=990_003)
    var = tmp_path / "var"

    error = refused(manage(var, "restore_backup", later))

    assert "made with PostgreSQL 99.3" in error
    assert f"target server is PostgreSQL {described['postgresql'] // 10_000}." in error
    assert "is complete" not in error
    assert not (var / "payloads").exists()


def test_a_restore_that_fails_leaves_no_files(backed_up: dict[str, Any], tmp_path: Path) -> None:
    var, programs = tmp_path / "var", tmp_path / "programs"
    programs.mkdir()
    for name in ("postgres", "initdb", "pg_restore"):
        (programs / name).symlink_to(postgres_folder() / name)
    # Reads everything, and fails like a server that does not know a setting.
    (programs / "psql").write_text("#!/bin/sh\ncat > /dev/null\necho unknown setting >&2\nexit 3\n")
    (programs / "psql").chmod(0o755)

    error = refused(
        manage(
            var,
            *("restore_backup", str(backed_up["folder"])),
            ROLLDECK_POSTGRES_BIN=str(programs),
        )
    )

    assert "psql failed with exit code 3: unknown setting" in error
    left = [path for tree in ("payloads", "media", "archives") for path in (var / tree).rglob("*")]
    assert left == []


def test_older_servers_of_this_machine_are_refused_with_both_versions(
    backed_up: dict[str, Any], tmp_path: Path
) -> None:
    """Compare with installed servers; the comparison itself is tested above."""
    for number, binaries in enumerate(sorted(Path("/usr/lib/postgresql").glob("*/bin"))):
        var, major = tmp_path / f"var{number}", binaries.parent.name
        with server_of(binaries, tmp_path / f"server{number}") as url:
            process = manage(var, "restore_backup", str(backed_up["folder"]), DATABASE_URL=url)
            assert f"target server is PostgreSQL {major}." in refused(process)
        assert not (var / "payloads").exists()


@contextmanager
def server_of(binaries: Path, folder: Path) -> Iterator[str]:
    """Run an installed PostgreSQL, as its own user if this process is root."""
    sockets = Path(tempfile.mkdtemp(prefix="rolldeck-"))
    server = Postgres(data_folder=folder, socket_folder=sockets, log_folder=folder.parent)
    os.environ["ROLLDECK_POSTGRES_BIN"] = str(binaries)
    try:
        child = server.start()
    finally:
        del os.environ["ROLLDECK_POSTGRES_BIN"]
    try:
        yield server.url
    finally:
        child.stop()
        shutil.rmtree(sockets)
