"""Logs, spools and recordings are in a folder that no other user can prepare or open."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from rollouts.fleet.process.logs import RingFile
from rollouts.fleet.process.private_folder import UnsafeFolder, private_folder
from rollouts.fleet.spool.spool_directory import SPOOL_RETENTION_SECONDS, Spool, SpoolDirectory
from rollouts.fleet.steps.recordings import RETENTION_SECONDS, delete_old

NOBODY = 65534
AS_ANOTHER_USER = f"""
import os
import tempfile
from rollouts.fleet.process.logs import RingFile
from rollouts.fleet.process.private_folder import private_folder
from rollouts.fleet.spool.spool_directory import Spool

os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
RingFile(private_folder("logs") / "run" / "w0.log").write(b"mine")
Spool(private_folder("spool") / "run" / "w0").append(b"mine")
print(private_folder("logs"))
"""
is_root = pytest.mark.skipif(os.getuid() != 0, reason="acts as another user")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a folder like /tmp: all users may write, but only owners may delete."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def own(temporary: Path) -> Path:
    return temporary / f"rolldeck-{os.getuid()}"


def make_link(folder: Path) -> None:
    target = folder.with_name("home")
    target.mkdir(mode=0o700)
    folder.symlink_to(target)


def make_foreign(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)


def make_open(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def make_readable(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o750)


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (make_link, "it is no directory"),
        (Path.touch, "it is no directory"),
        (make_open, "its mode is 0777, and must be 0700"),
        (make_readable, "its mode is 0750, and must be 0700"),
        pytest.param(make_foreign, f"user {NOBODY} owns it", marks=is_root),
    ],
)
def test_a_folder_prepared_by_another_user_is_refused(
    temporary: Path, prepare: object, reason: str
) -> None:
    prepare(own(temporary))  # type: ignore[operator]
    with pytest.raises(UnsafeFolder, match=reason):
        private_folder("logs")


def test_the_folder_is_created_private_and_used_again(temporary: Path) -> None:
    assert private_folder("logs") == private_folder("logs") == own(temporary) / "logs"
    assert own(temporary).stat().st_mode & 0o777 == 0o700


@is_root
def test_two_users_run_fleets_on_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    # Other users cannot enter pytest's folder.
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        Path(temporary).chmod(0o1777)
        monkeypatch.setattr(tempfile, "tempdir", temporary)
        RingFile(private_folder("logs") / "run" / "w0.log").write(b"root's")
        done = subprocess.run(
            [sys.executable, "-c", AS_ANOTHER_USER],
            env={**os.environ, "TMPDIR": temporary},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.strip() == f"{temporary}/rolldeck-{NOBODY}/logs", done.stderr


def test_a_log_is_not_written_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "important.db"
    victim.write_bytes(bytes(3_000_000))
    (tmp_path / "w0.log").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        RingFile(tmp_path / "w0.log")
    assert victim.stat().st_size == 3_000_000


def age(*paths: Path) -> None:
    long_ago = time.time() - max(SPOOL_RETENTION_SECONDS, RETENTION_SECONDS) - 60
    for path in paths:
        os.utime(path, (long_ago, long_ago), follow_symlinks=False)


@pytest.mark.parametrize("linked", ["run", "worker", "neither"])
def test_a_sweep_deletes_spools_only(tmp_path: Path, linked: str) -> None:
    root, home = tmp_path / "spool", tmp_path / "home"
    thesis = home / "w0" / "thesis.tex"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("42")
    spool = Spool(root / "old" / "w0")
    spool.append(b"1")
    spool.close()
    place = {"run": root / "run", "worker": root / "old" / "w1", "neither": root / "other"}[linked]
    if linked == "neither":
        home.rename(place)
        thesis = place / "w0" / "thesis.tex"
    else:
        place.symlink_to(home)
    age(thesis, thesis.parent, thesis.parent.parent, *root.rglob("*"))

    assert SpoolDirectory(root, "mine").sweep(time.time()) == 1

    assert thesis.read_text() == "42"
    assert not (root / "old" / "w0").exists()


def test_recordings_of_killed_workers_are_deleted_after_a_day(tmp_path: Path) -> None:
    recordings, home = tmp_path / "recordings", tmp_path / "home"
    for folder in (recordings / "killed", recordings / "alive", home):
        folder.mkdir(parents=True)
        (folder / "1.video").touch()
    (recordings / "link").symlink_to(home)
    age(recordings / "killed", home, recordings / "link")

    delete_old(recordings)

    assert not (recordings / "killed").exists()
    assert (recordings / "alive" / "1.video").exists()
    assert (home / "1.video").exists()
