"""Known vulnerabilities of the pinned packages, from the services of PyPI and npm.

``python -m tests.advisories PIP_AUDIT [NPM …]`` (`make audit`) exits with 1 if a package has an
advisory, for npm one of the level high or critical. It exits with 2 if a service does not answer.
Both programs also succeed if a mirror answers without advisories. So each service is first asked
about a release with a known advisory.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.lock_files import LOCKS, ROOT

VULNERABLE_PYTHON: Final = f"jinja2==2.4.1 --hash=sha256:{'0' * 64}\n"
VULNERABLE_NPM: Final = ("minimist", "0.0.8")
GRAVE: Final = ("high", "critical")


class Unreachable(Exception):
    """A service of advisories does not answer."""


def output_of(command: Sequence[str], folder: Path) -> dict[str, Any]:
    """Return the JSON document that a program prints; it may exit with 1 for advisories.

    Raises:
        Unreachable: If it prints none.
    """
    program = Path(command[0]).name
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unreachable(f"{program}: {error}") from error
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise Unreachable(f"{program}: {reason}") from None
    return document


def of_python(program: str, lock: Path) -> list[str]:
    """Return the advisories about the packages of a Python lock.

    Raises:
        Unreachable: If the service does not know a package.
    """
    command = [program, "--require-hashes", "--disable-pip", "--format", "json", "-r", str(lock)]
    dependencies = output_of(command, lock.parent).get("dependencies", [])
    if skipped := [entry["skip_reason"] for entry in dependencies if "skip_reason" in entry]:
        raise Unreachable(f"pip-audit: {len(skipped)} packages were skipped: {skipped[0]}")
    return [
        f"{lock.name}: {entry['name']} {entry['version']}: {advisory['id']}, "
        f"fixed in {', '.join(advisory.get('fix_versions') or ['no release'])}"
        for entry in dependencies
        for advisory in entry["vulns"]
    ]


def of_npm(npm: Sequence[str], folder: Path) -> list[str]:
    """Return the grave advisories about the packages of an npm lock.

    Raises:
        Unreachable: If npm prints no report.
    """
    report = output_of([*npm, "audit", "--json", "--package-lock-only"], folder)
    if "auditReportVersion" not in report:
        raise Unreachable(f"npm: {report.get('message') or report.get('error') or 'no report'}")
    return [
        f"package-lock.json: {name} {entry['range']}: {entry['severity']}"
        for name, entry in report["vulnerabilities"].items()
        if entry["severity"] in GRAVE
    ]


def check_services(pip_audit: str, npm: Sequence[str]) -> None:
    """Ask each service about a release with a known advisory.

    Raises:
        Unreachable: If a service reports none.
    """
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder, "vulnerable.txt")
        lock.write_text(VULNERABLE_PYTHON)
        if not of_python(pip_audit, lock):
            raise Unreachable("pip-audit: no advisory about jinja2 2.4.1")
        name, version = VULNERABLE_NPM
        root = {"name": "vulnerable", "version": "1.0.0", "dependencies": {name: version}}
        packages = {"": root, f"node_modules/{name}": {"version": version}}
        Path(folder, "package.json").write_text(json.dumps(root))
        Path(folder, "package-lock.json").write_text(
            json.dumps({"name": "vulnerable", "lockfileVersion": 3, "packages": packages})
        )
        if not of_npm(npm, Path(folder)):
            raise Unreachable(f"npm: no advisory about {name} {version}")


def main(pip_audit: str, *npm: str) -> int:
    """Print the advisories; return 1 if there is one, and 2 if a service does not answer."""
    program, command = str(Path(pip_audit).resolve()), npm or ("npm",)
    try:
        check_services(program, command)
        found = [
            advisory
            for lock in LOCKS
            for advisory in of_python(program, ROOT / "requirements" / f"{lock}.txt")
        ]
        found += of_npm(command, ROOT / "frontend")
    except Unreachable as error:
        print(  # noqa: T201 the output of this command
            f"No audit: a service of advisories does not answer. {error}", file=sys.stderr
        )
        return 2
    for advisory in found:
        print(advisory)  # noqa: T201 the output of this command
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
