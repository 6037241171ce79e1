"""An outage of the platform and a killed fleet lose no steps and duplicate none."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path

import msgspec
from small_platform import SmallPlatform, served
from spool_contents import spooled

from buffer.ingest.rules.fragments import check
from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.process.settings import FleetSettings

Eventually = Callable[..., None]
MakeSettings = Callable[..., FleetSettings]
Key = tuple[str, int]

ROOT = Path(__file__).resolve().parents[5]

FLEET = """
import sys, time, msgspec
from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.process.settings import FleetSettings
with LocalFleet(msgspec.json.decode(sys.argv[1], type=FleetSettings)):
    time.sleep(600)
"""


@contextmanager
def fleet_process(settings: FleetSettings) -> Iterator[subprocess.Popen[bytes]]:
    """Run a fleet in a separate process, and kill it by the end of the block."""
    command = [sys.executable, "-c", FLEET, msgspec.json.encode(settings).decode()]
    paths = [str(ROOT), str(ROOT / "platform"), str(ROOT / "client"), os.environ["PYTHONPATH"]]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with subprocess.Popen(command, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def stored(platform: SmallPlatform, incarnation: str) -> int:
    """Return how many fragments of that manager's workers the platform has."""
    return sum(incarnation in slot for slot, _ in list(platform.order))


def numbers_by_slot(order: list[Key]) -> dict[str, list[int]]:
    by_slot = groupby(sorted(order, key=lambda key: key[0]), key=lambda key: key[0])
    return {slot: [number for _, number in keys] for slot, keys in by_slot}


def test_a_fleet_killed_in_an_outage_loses_and_duplicates_nothing(
    make_settings: MakeSettings, tmp_path: Path, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with ExitStack() as started:
        with served(platform) as url:
            port, settings = int(url.rpartition(":")[2]), make_settings(url=url)
            process = started.enter_context(fleet_process(settings))
            eventually(lambda: len(platform.fragments) > 20, 60.0)
        # Fragments that were accepted without an answer exist in both places.
        eventually(lambda: len(set(spooled(tmp_path)) - set(platform.order)) >= 4, 60.0)
        process.send_signal(signal.SIGKILL)
    left = spooled(tmp_path)

    heirs = msgspec.structs.replace(settings, incarnation="2-bbbb")
    with served(platform, port=port), LocalFleet(heirs):
        eventually(lambda: set(left) <= platform.fragments.keys(), 60.0)
        eventually(lambda: not spooled(tmp_path), 20.0)
        eventually(lambda: any("2-bbbb" in slot for slot, _ in platform.order), 60.0)

    for fragment in platform.fragments.values():
        check(fragment)
    for numbers in numbers_by_slot(platform.order).values():
        assert numbers == list(range(len(numbers)))
    assert "spool_inherited" in platform.events()


def test_a_fleet_killed_while_the_platform_answers_loses_no_cut_fragment(
    make_settings: MakeSettings, tmp_path: Path, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with ExitStack() as started, served(platform) as url:
        settings = make_settings(url=url)
        process = started.enter_context(fleet_process(settings))
        eventually(lambda: len(platform.fragments) > 20, 60.0)
        # Pushes are accepted without an answer, so later fragments queue up.
        platform.gate.clear()
        behind = len(platform.fragments)
        eventually(lambda: platform.reports[-1].workers[0].fragments_cut > behind + 8, 60.0)
        process.send_signal(signal.SIGKILL)
        process.wait()
        cut = platform.reports[-1].workers[0].fragments_cut
        platform.gate.set()

        heirs = msgspec.structs.replace(settings, incarnation="2-bbbb")
        with LocalFleet(heirs):
            eventually(lambda: "spool_inherited" in platform.events(), 60.0)
            eventually(lambda: stored(platform, settings.incarnation) >= cut)

    # The fragments in flight when the worker died were sent twice and stored once.
    assert platform.duplicates >= 1
    for numbers in numbers_by_slot(platform.order).values():
        assert numbers == list(range(len(numbers)))
