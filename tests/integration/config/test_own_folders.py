"""Servers of one database share their folders; one with other folders refuses to start."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.test import Client
from pytest_django import Settings

from buffer.payloads.rules import MARKER
from config import monitoring
from config.own_folders import ForeignFolder, bind_folders, claim_folders, folder_problem
from config.settings.connections import payload_storage  # noqa: TID251 as the settings do
from runs.deployment.models import Deployment
from tests import processes
from tests.buffer_factories import ENVIRONMENT, REGISTRATION, group
from tests.factories import NOON, make_token
from tests.web_process import ROOT, database_url, web_process

NAMES = ("payloads", "media", "archives")


@pytest.fixture
def use(settings: Settings) -> Any:
    """Return a function that makes a folder that of this process."""

    def use(var: Path) -> None:
        var.mkdir(exist_ok=True)
        settings.ROLLDECK_VAR = var
        settings.MEDIA_ROOT = var / "media"
        files = payload_storage("", folder=var / "payloads")
        settings.STORAGES = settings.STORAGES | {"payloads": files}

    return use


def owners(var: Path) -> set[str]:
    """Return the different marks of the three folders; empty for a missing one."""
    paths = [var / name / MARKER for name in NAMES]
    return {path.read_text() if path.exists() else "" for path in paths}


def store_file(var: Path, name: str = "payloads") -> None:
    (var / name / "1").mkdir(parents=True)
    (var / name / "1" / "object").write_bytes(b"data")


@pytest.fixture
def _new_database(db: None) -> None:
    Deployment.objects.all().delete()


@pytest.mark.usefixtures("_new_database")
class TestClaims:
    def test_the_first_start_marks_every_folder(self, use: Any, tmp_path: Path) -> None:
        use(tmp_path)
        assert folder_problem() == ""

        claim_folders(now=NOON)
        known = Deployment.objects.get()
        claim_folders(now=NOON)

        assert owners(tmp_path) == {str(known.identity)}
        assert known.places["payloads"].endswith(f":{tmp_path}/payloads")
        assert Deployment.objects.get() == known

    def test_folders_of_an_earlier_version_are_adopted(self, use: Any, tmp_path: Path) -> None:
        for name in NAMES:
            store_file(tmp_path, name)
        use(tmp_path)

        claim_folders(now=NOON)

        assert owners(tmp_path) == {str(Deployment.objects.get().identity)}

    def test_moved_folders_keep_their_owner(self, use: Any, tmp_path: Path) -> None:
        use(tmp_path / "old")
        claim_folders(now=NOON)
        (tmp_path / "old").rename(tmp_path / "new")
        use(tmp_path / "new")

        claim_folders(now=NOON)

    @pytest.mark.parametrize("lost", NAMES)
    def test_a_folder_without_an_id_is_refused(self, use: Any, tmp_path: Path, lost: str) -> None:
        use(tmp_path)
        claim_folders(now=NOON)
        (tmp_path / lost / MARKER).unlink()

        with pytest.raises(ForeignFolder) as refused:
            claim_folders(now=NOON)

        assert f"{tmp_path}/{lost} has no deployment id" in str(refused.value)
        assert "rolldeck admin bind_folders" in str(refused.value)
        assert "\n" not in str(refused.value)

    def test_another_folder_is_refused_with_both_places(self, use: Any, tmp_path: Path) -> None:
        use(tmp_path / "a")
        claim_folders(now=NOON)
        first = Deployment.objects.get()
        Deployment.objects.all().delete()
        use(tmp_path / "b")
        claim_folders(now=NOON)
        use(tmp_path / "a")

        with pytest.raises(ForeignFolder) as refused:
            claim_folders(now=NOON)

        second = Deployment.objects.get()
        for words in (tmp_path / "a", first.identity, second.identity, tmp_path / "b"):
            assert str(words) in str(refused.value)
        assert owners(tmp_path / "a") == {str(first.identity)}

    @pytest.mark.parametrize(("holds_files", "is_refused"), [(False, False), (True, True)])
    def test_a_new_database_takes_used_folders_only_without_files(
        self, use: Any, tmp_path: Path, holds_files: bool, is_refused: bool
    ) -> None:
        use(tmp_path)
        claim_folders(now=NOON)
        if holds_files:
            store_file(tmp_path)
        Deployment.objects.all().delete()

        if is_refused:
            with pytest.raises(ForeignFolder, match="but the database is new"):
                claim_folders(now=NOON)
            assert not Deployment.objects.exists()
            bind_folders(now=NOON)
        claim_folders(now=NOON)

        assert owners(tmp_path) == {str(Deployment.objects.get().identity)}

    def test_bound_folders_belong_to_the_database(self, use: Any, tmp_path: Path) -> None:
        use(tmp_path / "a")
        claim_folders(now=NOON)
        use(tmp_path / "b")

        bind_folders(now=NOON)

        claim_folders(now=NOON)
        use(tmp_path / "a")
        with pytest.raises(ForeignFolder):
            claim_folders(now=NOON)

    def test_a_server_with_another_folder_is_not_ready(
        self, use: Any, tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(monitoring, "_has_own_folders", threading.Event())
        use(tmp_path / "a")
        claim_folders(now=NOON)
        use(tmp_path / "b")

        answer = client.get("/healthz/ready")

        assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
        assert "another deployment" in answer.json()["detail"]
        # Only the log has paths: the route needs no credentials.
        assert str(tmp_path) not in answer.json()["detail"]
        use(tmp_path / "a")
        assert client.get("/healthz/ready").status_code == 200


def refused(*module: str, var: Path) -> str:
    """Return the output of a process that must refuse to start."""
    done = processes.run(
        [sys.executable, "-m", *module],
        cwd=ROOT,
        env=os.environ
        | {
            "DJANGO_SETTINGS_MODULE": "config.settings.base",
            "PYTHONPATH": ".:platform:client",
            "DATABASE_URL": database_url(),
            "ROLLDECK_VAR": str(var),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stdout
    return str(done.stdout)


@pytest.mark.usefixtures("own_database")
def test_two_web_servers_serve_one_folder_and_refuse_another(tmp_path: Path) -> None:
    shared, other = tmp_path / "shared", tmp_path / "other"
    _, token = make_token("trainer", "env")
    headers = {"Authorization": f"Bearer {token}"}
    with (
        web_process(tmp_path / "first.log", ROLLDECK_VAR=str(shared)) as first,
        web_process(tmp_path / "second.log", ROLLDECK_VAR=str(shared)) as second,
    ):
        for web in (first, second):
            assert httpx.get(f"{web.url}/healthz/ready").status_code == 200

        def post(path: str, body: Any) -> None:
            answer = httpx.post(f"{first.url}{path}", json=body, headers=headers, timeout=30)
            assert answer.status_code == 200, answer.text

        post("/register", {**REGISTRATION, "batch_size": 2, "max_token_len": 100_000})
        httpx.get(f"{first.url}/batch", headers=headers, timeout=30)
        post("/register-env", ENVIRONMENT | {"max_token_length": 100_000})
        post("/scored_data", group(tokens=20_000) | {"env_id": 0})
        assert [path for path in (shared / "payloads").rglob("*") if path.name != MARKER]

        batch = httpx.get(f"{second.url}/batch", headers=headers, timeout=30).json()["batch"]
        assert [len(row) for row in batch[0]["tokens"]] == [20_000, 20_000]

        for module in (
            ("config.web", "127.0.0.1:0", "1"),
            ("config.web", "127.0.0.1:0", "2"),
            ("celery", "--app=config", "worker", "--concurrency=1"),
        ):
            output = refused(*module, var=other)
            (line,) = [line for line in output.splitlines() if line.startswith("rolldeck: ")]
            for words in (f"{other}/payloads", f"{shared}/payloads", "bind_folders"):
                assert words in line
            assert "Traceback" not in output
        assert not (other / "payloads" / MARKER).exists()
