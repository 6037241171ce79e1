"""Run a campaign against an own server: ``make chaos ARGS="--minutes 15 --seed 7"``."""

import argparse
import logging
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rolldeck.chaos.campaign import Campaign
from rolldeck.chaos.report import publish, write_report
from tests.chaos.faults import local_faults
from tests.chaos.server import ChaosServer
from tests.server import ROOT

PAGE: Final = ROOT / "docs" / "explanation" / "reliability.md"
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
        subprocess.run(["umount", "--lazy", mount], check=False)


def commit() -> str:
    """Return the commit of the working tree; empty without Git."""
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=60.0, help="pushes a second")
    parser.add_argument("--groups", type=int, default=16, help="groups of a large push")
    parser.add_argument("--faults", default="", help="parts of names, separated by commas")
    parser.add_argument("--ray", action="store_true", help="start Ray as well")
    parser.add_argument("--out", type=Path, default=Path("build/chaos"))
    parser.add_argument("--publish", action="store_true", help="only write the totals of --out")
    options = parser.parse_args()
    if options.publish:
        publish(options.out, PAGE)
        return 0
    logging.getLogger("rolldeck").setLevel(logging.ERROR)
    with (
        tempfile.TemporaryDirectory(prefix="rolldeck-chaos-") as name,
        small_disk(Path(name)) as disk,
    ):
        folder = Path(name)
        server = ChaosServer((disk or folder) / "var", has_ray=options.ray, disk=disk)
        try:
            server.wait_until_ready()
            history = options.out / f"history-{options.seed}"
            history.mkdir(parents=True, exist_ok=True)
            for old in history.iterdir():
                old.unlink()
            campaign = Campaign(
                server.url,
                server.token,
                history,
                seed=options.seed,
                rate=options.rate,
                groups=options.groups,
                has_fleet=options.ray,
            )
            faults = local_faults(server) + campaign.network_faults()
            faults = campaign.faults_named(faults, options.faults)
            result = campaign.run(faults, seconds=60 * options.minutes)
            campaign.close()
        finally:
            server.stop()
    result.commit = commit()
    sys.stdout.write(write_report(options.out, result) + "\n")
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
