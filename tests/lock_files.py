"""Checks of the lock files: every package has a hash, and the versions are those of the tests.

``python -m tests.lock_files [CYCLONEDX_PY]`` (`make check`) prints each difference and fails if
there is one. With the program of cyclonedx-bom it also builds a bill of materials of each lock and
compares its packages with the pins. It needs no network.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
LOCKS: Final = ("docs", "release", "web", "worker")
"""Files of requirements with hashes: the images, the documentation and the release."""
PIN: Final = re.compile(r"^([\w.-]+)(?:\[[\w,]+\])?==([^\s;\\]+)", re.MULTILINE)
_HASH: Final = re.compile(r"--hash=sha256:[0-9a-f]{64}(?![0-9a-f])")
_INTEGRITY: Final = re.compile(r"sha512-[A-Za-z0-9+/]{86}==")


def name_of(requirement: str) -> str:
    """Return the normalized name of a requirement."""
    match = re.match(r"[\w.-]+", requirement)
    assert match
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def pins(text: str) -> dict[str, str]:
    """Return the pinned versions of a lock by normalized name."""
    return {name_of(name): version for name, version in PIN.findall(text)}


def of_python(root: Path) -> list[str]:
    """Return the faults of the Python locks below `requirements`."""
    tested = pins((root / "constraints.txt").read_text())
    faults = []
    for lock in LOCKS:
        text = (root / "requirements" / f"{lock}.txt").read_text()
        for block in re.split(r"\n(?=\S)", text.strip()):
            line = block.splitlines()[0]
            if not PIN.match(block):
                faults.append(f"{lock}.txt: no exact version: {line}")
            elif not _HASH.search(block):
                faults.append(f"{lock}.txt: no SHA-256: {line}")
        faults += [
            f"{lock}.txt: {name} {version}, but {tested[name]} in constraints.txt"
            for name, version in pins(text).items()
            if tested.get(name, version) != version
        ]
    return faults


def of_npm(root: Path) -> list[str]:
    """Return the packages of the npm lock without a SHA-512."""
    lock = json.loads((root / "frontend" / "package-lock.json").read_text())
    return [
        f"package-lock.json: no SHA-512: {name}"
        for name, package in lock["packages"].items()
        if name and not _INTEGRITY.fullmatch(package.get("integrity", ""))
    ]


def of_bill(lock: str, bill: dict[str, Any], text: str) -> list[str]:
    """Return the pins of a lock that its bill of materials lacks."""
    listed = {name_of(part["name"]): part.get("version") for part in bill.get("components", ())}
    return [
        f"{lock}.txt: {name} {version} is not in the bill of materials"
        for name, version in pins(text).items()
        if listed.get(name) != version
    ]


def bill_of(program: str, lock: Path) -> dict[str, Any]:
    """Return the bill of materials that cyclonedx-bom builds from a lock."""
    done = subprocess.run(
        [program, "requirements", "--output-reproducible", "--output-format", "JSON", str(lock)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"bill of materials of {lock.name}: {done.stderr.strip()}")
    bill: dict[str, Any] = json.loads(done.stdout)
    return bill


def main() -> None:
    """Print the faults of the lock files; exit with 1 if there is one."""
    faults = of_python(ROOT) + of_npm(ROOT)
    for lock in LOCKS if len(sys.argv) > 1 else ():
        file = ROOT / "requirements" / f"{lock}.txt"
        faults += of_bill(lock, bill_of(sys.argv[1], file), file.read_text())
    if faults:
        sys.exit("\n".join([*faults, "Renew the locks with `make lock`"]))


if __name__ == "__main__":
    main()
