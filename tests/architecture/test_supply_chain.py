"""The locks are complete, no file has a credential, and an audit without a service fails."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests import advisories, lock_files, secret_scan

ROOT: Final = Path(__file__).resolve().parents[2]
# In parts, so that this file has no credential either.
PLANTED: Final = {
    "Private Key": "-----BEGIN " + "PRIVATE KEY-----\n    MIIEvQIBADANBgkqhkiG9w0B\n",
    "AWS Access Key": "key = 'AKIA" + "QWERTYUIOPASDFGH'\n",
    "GitHub Token": "ghp_" + "a1B2" * 9 + "\n",
    "Basic Auth Credentials": "url: postgres://ada:" + "correct-horse@db.internal/rolldeck\n",
    "Token of this platform": "TOKEN=rd_0a1b2c3d_" + "Ab3_-" * 6 + "Zz\n",
    "Token of a model provider": "hf_" + "aB1" * 11 + "\n",
    "Token of a package index": "pypi-AgE" + "aB1-_" * 12 + "\n",
}


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    """A copy of the lock files."""
    (tmp_path / "frontend").mkdir()
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    shutil.copy(ROOT / "constraints.txt", tmp_path)
    shutil.copy(ROOT / "frontend/package-lock.json", tmp_path / "frontend")
    return tmp_path


def edit(file: Path, old: str, new: str) -> None:
    """Replace a text, which the file has, once."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_every_package_of_a_lock_has_a_hash_and_the_version_of_the_tests() -> None:
    assert lock_files.of_python(ROOT) == []
    assert lock_files.of_npm(ROOT) == []


def test_every_file_of_requirements_is_checked() -> None:
    files = {file.stem for file in (ROOT / "requirements").glob("*.txt")}

    assert files == set(lock_files.LOCKS)


@pytest.mark.parametrize("lock", lock_files.LOCKS)
def test_a_lock_without_a_hash_is_refused(locks: Path, lock: str) -> None:
    file = locks / "requirements" / f"{lock}.txt"
    file.write_text(file.read_text() + "left-over==1.0\n")

    assert lock_files.of_python(locks) == [f"{lock}.txt: no SHA-256: left-over==1.0"]


def test_a_truncated_hash_an_open_range_and_another_version_are_refused(locks: Path) -> None:
    (locks / "requirements/docs.txt").write_text(
        f"a==1 \\\n    --hash=sha256:{'0' * 63}\nb>=1 \\\n    --hash=sha256:{'0' * 64}\n"
        f"Django==1.0 \\\n    --hash=sha256:{'0' * 64}\n"
    )
    tested = lock_files.pins((locks / "constraints.txt").read_text())["django"]

    assert lock_files.of_python(locks) == [
        "docs.txt: no SHA-256: a==1 \\",
        "docs.txt: no exact version: b>=1 \\",
        f"docs.txt: django 1.0, but {tested} in constraints.txt",
    ]


def test_an_npm_package_without_a_sha512_is_refused(locks: Path) -> None:
    file = locks / "frontend/package-lock.json"
    edit(file, '"integrity": "sha512-', '"integrity": "sha1-')

    (fault,) = lock_files.of_npm(locks)
    assert fault.startswith("package-lock.json: no SHA-512: node_modules/")


def test_a_package_that_a_bill_of_materials_lacks_is_named() -> None:
    bill = {"components": [{"name": "Some_Package", "version": "1"}, {"name": "b", "version": "1"}]}

    faults = lock_files.of_bill("web", bill, "some-package==1\nb==2\n")

    assert faults == ["web.txt: b 2 is not in the bill of materials"]


def test_no_tracked_file_has_a_credential() -> None:
    assert secret_scan.scan(ROOT) == []


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_credential_is_found_and_not_printed(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "folder" / "notes.txt"
    file.parent.mkdir()
    file.write_text("one\ntwo " + PLANTED[kind])
    for words in (["init", "--quiet"], ["add", "."]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)

    done = subprocess.run(
        [sys.executable, "-m", "tests.secret_scan", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert f"folder/notes.txt:2: {kind}" in done.stdout.splitlines()
    assert PLANTED[kind].strip() not in done.stdout + done.stderr
    assert done.returncode == 1


def stand_in(folder: Path, name: str, answers: dict[str, str]) -> Path:
    """Return a program that prints an answer by a text in the lock that it audits."""
    program = folder / name
    program.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, sys\n"
        "lock = pathlib.Path(sys.argv[-1])\n"
        "lock = lock if lock.suffix == '.txt' else pathlib.Path('package-lock.json')\n"
        "text = lock.read_text()\n"
        f"print(next(a for known, a in {answers!r}.items() if known in text))\n"
    )
    program.chmod(0o755)
    return program


def pip_report(vulns: list[str]) -> str:
    vulnerable = [{"id": name, "fix_versions": ["2"]} for name in vulns]
    return json.dumps({"dependencies": [{"name": "a", "version": "1", "vulns": vulnerable}]})


def npm_report(*severities: str) -> str:
    vulnerable = {f"p{n}": {"range": "<1", "severity": s} for n, s in enumerate(severities)}
    return json.dumps({"auditReportVersion": 2, "vulnerabilities": vulnerable})


SKIPPED: Final = json.dumps({"dependencies": [{"name": "a", "skip_reason": "not found on PyPI"}]})
NPM_ERROR: Final = json.dumps({"error": {"summary": "405 Method Not Allowed"}})
KNOWN: Final = pip_report(["CVE-1"])


@pytest.mark.parametrize(
    ("python", "npm", "code", "printed"),
    [
        ([KNOWN, pip_report([])], [npm_report("critical"), npm_report("low")], 0, ""),
        ([KNOWN, KNOWN], [npm_report("critical"), npm_report()], 1, "web.txt: a 1: CVE-1, fixed"),
        ([KNOWN, pip_report([])], [npm_report("high")] * 2, 1, "package-lock.json: p0 <1: high"),
        (["", ""], [npm_report("high"), npm_report()], 2, "No audit"),
        ([SKIPPED, SKIPPED], [npm_report("high"), npm_report()], 2, "not found on PyPI"),
        ([KNOWN, SKIPPED], [npm_report("high"), npm_report()], 2, "not found on PyPI"),
        ([pip_report([])] * 2, [npm_report("high"), npm_report()], 2, "no advisory about jinja2"),
        ([KNOWN, pip_report([])], [NPM_ERROR, NPM_ERROR], 2, "405 Method Not Allowed"),
        ([KNOWN, pip_report([])], [npm_report()] * 2, 2, "no advisory about minimist"),
    ],
)
def test_an_audit_fails_for_an_advisory_and_without_a_service(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    python: list[str],
    npm: list[str],
    code: int,
    printed: str,
) -> None:
    pip_audit = stand_in(tmp_path, "pip-audit", {"jinja2==2.4.1 ": python[0], "": python[1]})
    fake_npm = stand_in(tmp_path, "npm", {'"vulnerable"': npm[0], "": npm[1]})

    assert advisories.main(str(pip_audit), str(fake_npm)) == code
    output = capfd.readouterr()
    assert printed in output.out + output.err
    assert ("does not answer" in output.err) == (code == 2)


def test_a_missing_program_is_no_audit(capfd: pytest.CaptureFixture[str]) -> None:
    assert advisories.main("/nowhere/pip-audit") == 2
    assert "/nowhere/pip-audit" in capfd.readouterr().err
