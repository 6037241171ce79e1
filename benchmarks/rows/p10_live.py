"""P10: live pages during pushes: delay of changes, and the cost of the pages."""

import itertools
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.bench import Bench, Figures, Row
from benchmarks.bodies import USUAL
from benchmarks.figures import Limit, Target, percentile
from benchmarks.load import OtherProcess, Push, RunningWork, other_process, push_json
from benchmarks.rolldeck_server import ENVIRONMENT, RUN, TOKEN, RolldeckServer
from benchmarks.watching import LAST, Changes, Watch, watch

SOCKETS = 200
GROUPS = 600
# Larger than all groups, so that producers are never paused.
BATCH_SIZE = 1024
CHANGE_SECONDS = 0.25
READY_SECONDS = 60.0


def run(bench: Bench) -> Figures:
    sockets, groups = (4, 20) if bench.tiny else (SOCKETS, GROUPS)
    late: list[float] = []
    with bench.rolldeck() as rolldeck, other_process() as pushing, other_process() as watching:
        comparison = bench.compare(
            f"1 client, {sockets} live pages",
            ours=lambda: _rate_while_watched(rolldeck, pushing, watching, sockets, groups, late),
            peer=lambda: _rate_unwatched(rolldeck, pushing, groups),
            better="more",
        )
    return comparison | {
        "sockets": sockets,
        "frames": len(late),
        "late_p50_ms": percentile(late, 50),
        "late_p95_ms": percentile(late, 95),
        "late_max_ms": max(late),
    }


def _begin(rolldeck: RolldeckServer) -> int:
    return rolldeck.begin(batch_size=BATCH_SIZE, group_size=USUAL.sequences)


def _rate(rolldeck: RolldeckServer, pushing: OtherProcess, env_id: int, groups: int) -> float:
    push = Push(url=rolldeck.url, size=USUAL, groups=groups, env_id=env_id)
    return groups / pushing.run(push_json, push)


def _rate_unwatched(rolldeck: RolldeckServer, pushing: OtherProcess, groups: int) -> float:
    """Return groups per second with the same changes but without pages."""
    env_id = _begin(rolldeck)
    with _Changes(rolldeck):
        return _rate(rolldeck, pushing, env_id, groups)


def _rate_while_watched(
    rolldeck: RolldeckServer,
    pushing: OtherProcess,
    watching: OtherProcess,
    sockets: int,
    groups: int,
    late: list[float],
) -> float:
    """Return groups per second; append each page's delay of each change to `late`, in ms."""
    env_id = _begin(rolldeck)
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder, "ready")
        request = Watch(url=rolldeck.url, token=TOKEN, run=RUN, sockets=sockets, ready=str(ready))
        seen = watching.start(watch, request)
        _wait_for(ready, seen)
        with _Changes(rolldeck) as changes:
            rate = _rate(rolldeck, pushing, env_id, groups)
        late += [1000 * (at - changes.sent[name]) for name, at in seen() if name in changes.sent]
    return rate


def _wait_for(path: Path, watching: RunningWork[Changes]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not path.exists():
        if watching.done() or time.monotonic() > deadline:
            raise TimeoutError(f"the pages do not open: {watching()}")
        time.sleep(0.05)


class _Changes:
    """Changes of the run four times a second: an environment registers, which is an event.

    `sent` holds the time of each request, which precedes its commit, so delays are not understated.
    """

    def __init__(self, rolldeck: RolldeckServer) -> None:
        self.sent: dict[str, float] = {}
        self._rolldeck = rolldeck
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample_next_turns)

    def __enter__(self) -> "_Changes":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._join(LAST)

    def _sample_next_turns(self) -> None:
        for number in itertools.count():
            name = f"change-{number}"
            self.sent[name] = time.monotonic()
            self._join(name)
            if self._ended.wait(CHANGE_SECONDS):
                return

    def _join(self, name: str) -> None:
        joining = ENVIRONMENT | {"group_size": USUAL.sequences, "desired_name": name}
        self._rolldeck.call("POST", "/register-env", joining)


ROW = Row(
    name="P10",
    measure=f"groups taken in while {SOCKETS} live pages watch the run, 4 changes a second",
    peer="the same without a page",
    unit="groups/s",
    better="more",
    mark=Target(
        words="request → frame p95 ≤ 300 ms; ≥ 0.95× of the groups",
        limits=(Limit(figure="late_p95_ms", at_most=300), Limit(figure="ratio", at_least=0.95)),
    ),
    goal=Target(
        words="the same with 1,000 pages",
        limits=(
            Limit(figure="sockets", at_least=1000),
            Limit(figure="late_p95_ms", at_most=300),
            Limit(figure="ratio", at_least=0.9),
        ),
    ),
    run=run,
)
