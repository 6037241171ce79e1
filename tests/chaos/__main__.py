"""Run a campaign against an own server: ``make chaos ARGS="--minutes 15 --seed 7"``."""

import argparse
import logging
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from benchmarks.machine import commit
from rolldeck.chaos.campaign import Campaign
from rolldeck.chaos.report import publish, write_report
from tests.chaos.control import Control, ReferenceServer
from tests.chaos.faults import left_out, local_faults, thaw
from tests.chaos.server import ChaosServer, fake_clock, object_storage
from tests.server import ROOT

PAGE: Final = ROOT / "docs" / "explanation" / "reliability.md"
KEPT: Final = ROOT / "benchmarks" / "results" / "chaos"
"""Reports of published campaigns."""
DISK_MEGABYTES: Final = 4096


@contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """Mount a file system of 4 GB, which a fault may fill; yield None without the rights."""
    image, mount = folder / "disk.img", folder / "disk"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(DISK_MEGABYTES << 20)
    made = subprocess.run(["mkfs.ext4", "-q", "-F", image], capture_output=True, check=False)
    mounted = (
        made.returncode == 0
        and (
            subprocess.run(["mount", "-o", "loop", image, mount], capture_output=True, check=False)
        ).returncode
        == 0
    )
    if not mounted:
        yield None
        return
    mount.chmod(0o755)
    try:
        yield mount
    finally:
        thaw(mount)
        subprocess.run(["umount", "--lazy", mount], check=False)


def options_of() -> argparse.Namespace:
    """Return the arguments of the command."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=60.0, help="pushes a second")
    parser.add_argument("--groups", type=int, default=16, help="groups of a large push")
    parser.add_argument("--faults", default="", help="parts of names, separated by commas")
    parser.add_argument("--ray", action="store_true", help="start Ray and a fleet as well")
    parser.add_argument("--s3", action="store_true", help="store large pushes in an S3 server")
    parser.add_argument("--clock", action="store_true", help="step the clock, with libfaketime")
    parser.add_argument("--control", action="store_true", help="load the server of atroposlib")
    parser.add_argument("--out", type=Path, default=Path("build/chaos"))
    parser.add_argument("--publish", action="store_true", help="keep the reports and add them up")
    return parser.parse_args()


def main() -> int:
    options = options_of()
    if options.publish:
        publish(options.out, KEPT, PAGE)
        return 0
    logging.getLogger("rolldeck").setLevel(logging.ERROR)
    # The disk is unmounted and the server is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    history = options.out / f"history-{'control-' if options.control else ''}{options.seed}"
    history.mkdir(parents=True, exist_ok=True)
    for old in history.iterdir():
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="rolldeck-chaos-") as name, ExitStack() as stack:
        folder = Path(name)
        common = {"seed": options.seed, "rate": options.rate, "groups": options.groups}
        campaign: Campaign
        reasons: list[str] = []
        if options.control:
            reference = ReferenceServer(folder)
            stack.callback(reference.stop)
            campaign = Control(reference.url, history, **common)
            faults = reference.faults()
        else:
            server, reasons = own_server(folder, options, stack)
            campaign = Campaign(server.url, server.token, history, has_fleet=options.ray, **common)
            faults = local_faults(server)
        stack.callback(campaign.close)
        faults = campaign.faults_named(faults + campaign.network_faults(), options.faults)
        result = campaign.run(faults, seconds=60 * options.minutes)
    result.commit, result.not_injected = commit(), reasons
    sys.stdout.write(write_report(options.out, result) + "\n")
    return 1 if result.violations else 0


def own_server(
    folder: Path, options: argparse.Namespace, stack: ExitStack
) -> tuple[ChaosServer, list[str]]:
    """Start a server for the campaign; return it and the faults that it cannot have."""
    disk = stack.enter_context(small_disk(folder))
    clock, reasons = None, []
    if options.clock:
        try:
            clock = folder / "clock"
            fake_clock(clock)
        except LookupError as error:
            clock = None
            reasons.append(f"clock stepped: {error}")
    else:
        reasons.append("clock stepped: without --clock")
    storage = stack.enter_context(object_storage(folder)) if options.s3 else None
    server = ChaosServer(
        (disk or folder) / "var", has_ray=options.ray, disk=disk, clock=clock, storage=storage
    )
    stack.callback(server.stop)
    server.wait_until_ready()
    return server, left_out(server, reasons)


if __name__ == "__main__":
    sys.exit(main())
