"""Record real runs on a real server, as a backup in `runs.tar.xz`.

Run as ``python -m tests.recorded_runs.record`` in the repository's folder, with
``PYTHONPATH=.:platform:client``. It takes about nine minutes on two idle cores.
"""

import lzma
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from config.backups import contents
from tests import processes
from tests.e2e.conftest import create_superuser, in_the_shell
from tests.recorded_runs import fleet_runs, outside_runs, reviews
from tests.recorded_runs.names import LANGUAGE, LIVE, MIXED, PAUSED
from tests.recorded_runs.people import create_operator
from tests.recorded_runs.recording import FILE
from tests.server import ROOT, Server, environment, running_server, wait_until

CODE: Final = Path(__file__).parent / "code"
LESSON_VERSIONS: Final = 150
KEPT_ITEMS: Final = 700
# A segment is kept for ten minutes after it was sealed; no request writes to these any more.
TRIM: Final = f"""
from datetime import timedelta
from django.db.models import F
from django.utils import timezone
from buffer.payloads.models import Segment
from buffer.payloads.rules import RetentionLimits
from buffer.payloads.services.retention import apply_retention
Segment.objects.exclude(sealed_at=None).update(sealed_at=F("sealed_at") - timedelta(minutes=10))
limits = RetentionLimits(seconds=None, size_bytes=None, items={KEPT_ITEMS})
print(apply_retention(now=timezone.now(), limits=limits))
"""


def main() -> None:
    """Drive the runs into their states, back up the server, and pack the backup."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {
            "PYTHONPATH": str(CODE),
            "ROLLDECK_POLICIES": "module:recorded_parts:HangingPolicy",
            "ROLLDECK_RAY_CPUS": "16",
            "ROLLDECK_SEGMENT_SECONDS": "10",
        }
        with running_server(Path(folder) / "var", **variables) as server:
            wait_until(lambda: "Ready on" in server.log(), seconds=300, what="every part is ready")
            with ExitStack() as stack:
                record(server, stack)
                note("backing up")
                in_the_shell(server, TRIM)
                back_up(server, Path(folder) / "backup")
            for run in (LIVE, LANGUAGE, PAUSED, MIXED):
                server.http.post(f"/api/v1/runs/{run}/kill", json={"reason": "recorded"})
        pack(Path(folder) / "backup", FILE)
    note(f"{FILE.relative_to(ROOT)}: {FILE.stat().st_size} bytes")


def record(server: Server, stack: ExitStack) -> None:
    """Drive the runs into their states; `stack` ends the processes of the active ones."""
    create_superuser(server)
    person = create_operator(server)
    fleet_runs.create_draft(person)
    outside_runs.push_hostile_text(server, person)
    with ThreadPoolExecutor(3) as threads:
        first = [
            threads.submit(fleet_runs.record_failure, server, person),
            *(threads.submit(fleet_runs.record_sweep, server, person, n) for n in range(2)),
        ]
        for one in first:
            one.result()
    note("recorded the ended runs")
    stack.enter_context(fleet_runs.paused(server, person))
    leaving = stack.enter_context(outside_runs.mixed(server, person))
    stack.enter_context(fleet_runs.lessons(server, person))
    fleet_runs.wait_for(server, LANGUAGE, version=LESSON_VERSIONS // 2)
    leaving.leave()
    fleet_runs.wait_for(server, LANGUAGE, version=LESSON_VERSIONS)
    # Beside it, the language run would train at a tenth of its speed.
    stack.enter_context(fleet_runs.live(server, person))
    reviews.write(server, person)
    time.sleep(20)  # alerts, audits and samples of the machine follow
    note("recorded the active runs")


def back_up(server: Server, folder: Path) -> None:
    """Back up the running server."""
    processes.run(
        [sys.executable, "manage.py", "backup", str(folder)],
        cwd=ROOT,
        env=environment(server.var, server.port),
        check=True,
        timeout=300,
    )


def pack(folder: Path, target: Path) -> None:
    """Write a backup into a small archive, without owners and times."""

    def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        return entry

    with (
        lzma.open(target, "wb", preset=9 | lzma.PRESET_EXTREME) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        # The manifest first: it holds the time of the recording.
        archive.add(folder / contents.NAME, arcname=f"backup/{contents.NAME}", filter=anonymous)
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            if path.name != contents.NAME:
                name = f"backup/{path.relative_to(folder).as_posix()}"
                archive.add(path, arcname=name, filter=anonymous)


def note(text: str) -> None:
    """Print the progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)  # noqa: T201 progress for a person


if __name__ == "__main__":
    main()
