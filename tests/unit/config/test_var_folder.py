"""An unusable data folder yields a single clear line with every command."""

import errno
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from config import env

ROOT = Path(__file__).parents[3]


def manage(var: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        env={**os.environ, "ROLLDECK_VAR": str(var)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", ["up", "migrate"])
def test_a_file_in_place_of_the_folder_is_one_line(tmp_path: Path, command: str) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")

    finished = manage(taken / "var", command)

    assert (finished.returncode, finished.stdout) == (1, "")
    (line,) = finished.stderr.splitlines()
    program = "rolldeck" if command == "up" else "manage.py"
    assert line.startswith(f"{program}: ROLLDECK_VAR is {taken}/var, which cannot be written to:")
    assert "Not a directory. Set ROLLDECK_VAR to a folder" in line


@pytest.mark.parametrize(
    ("path", "number"),
    [("/sys/rolldeck", errno.EPERM), ("/proc/rolldeck", errno.ENOENT), ("/dev/null", errno.EEXIST)],
)
def test_a_folder_that_cannot_be_written_to_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, path: str, number: int
) -> None:
    monkeypatch.setenv("ROLLDECK_VAR", path)
    reasons = {os.strerror(number), os.strerror(errno.EACCES), os.strerror(errno.EROFS)}

    with pytest.raises(env.InvalidSetting, match=f"ROLLDECK_VAR is {path}, ") as refused:
        env.folder("ROLLDECK_VAR", ROOT / "var")

    assert any(reason in str(refused.value) for reason in reasons)


def test_a_folder_is_created_empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ROLLDECK_VAR", raising=False)
    folder = tmp_path / "a" / "var"

    assert env.folder("ROLLDECK_VAR", folder) == folder
    assert list(folder.iterdir()) == []


def test_manage_shows_the_version(tmp_path: Path) -> None:
    for words in (("--version",), ("version",)):
        assert manage(tmp_path, *words).stdout.startswith(
            f"rolldeck {version('rolldeck')} (Django "
        )
