import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHOW = "import platform, uuid; print(platform.__file__)"


def test_platform_and_client_contain_packages_and_are_not_packages() -> None:
    loose = [p for folder in ("platform", "client") for p in (ROOT / folder).glob("*.py")]

    assert loose == [ROOT / "client" / "hatch_build.py"], "only the build reads it"


def test_a_fresh_interpreter_at_the_root_finds_the_standard_librarys_platform() -> None:
    result = subprocess.run(
        [sys.executable, "-c", SHOW], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert result.stdout.strip() == str(Path(sysconfig.get_path("stdlib"), "platform.py"))


def test_manage_py_finds_the_standard_librarys_platform() -> None:
    result = subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", SHOW],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert result.stdout.strip() == str(Path(sysconfig.get_path("stdlib"), "platform.py"))
