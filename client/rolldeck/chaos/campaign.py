"""Campaign: start the workload, inject faults in a seeded order, and check the history."""

import logging
import math
import multiprocessing
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from rolldeck.chaos.checker import Violation, items_of
from rolldeck.chaos.content import SEQUENCES
from rolldeck.chaos.history import History, HistoryReader
from rolldeck.chaos.operator import operate
from rolldeck.chaos.proxy import NetworkFault, Proxy
from rolldeck.chaos.results import FLEET_SECONDS, Injected, Result, result_of
from rolldeck.chaos.workload import (
    LEASE_SECONDS,
    PUSHERS,
    ClientPlan,
    Pusher,
    Role,
    follow,
    replay,
    train,
    train_like_atropos,
    weights_of,
)
from rolldeck.client import ENDED, Client
from rolldeck.errors import NotFoundError, RolldeckError
from rolldeck.http import Call
from rolldeck.trainer import Trainer

NETWORK: Final[tuple[NetworkFault, ...]] = (
    "refuse",
    "reset",
    "silence",
    "half_open",
    "delay",
    "cut_request",
    "cut_answer",
)
RUNS: Final[Mapping[str, tuple[Role, ...]]] = {
    "atropos": ("json", "list", "keyless", "atropos", "follower"),
    "library": ("binary", "json", "trainer", "follower"),
    "ranks": ("binary", "list", "ranks", "follower"),
    "fragments": ("fragments", "trainer", "follower"),
    "replay": ("fragments", "replay", "follower"),
}
"""Clients of each run. Every second one goes through the proxy."""
FLEET: Final[Mapping[str, tuple[Role, ...]]] = {"fleet": ("fleet", "follower")}
"""Clients of a run with a fleet on Ray."""
FLEET_ENVS: Final = 8
FRAGMENTS_OF_AN_ENV: Final = 3
OF_FRAGMENTS: Final = frozenset({"fragments", "replay", "fleet"})
REUSE: Final = 3
"""Most batches with the same fragment in the run that replays."""
LEAST_SEQUENCES: Final = 32
CALM_SECONDS: Final = 2.0
"""Time without a fault before the next one."""
PAIRED_SHARE: Final = 0.25
DRAIN_SECONDS: Final = 120.0
READY_SECONDS: Final = 60.0


CLIENTS: Final[Mapping[Role, Callable[[ClientPlan, History], None]]] = {
    "replay": replay,
    "operator": operate,
    "atropos": train_like_atropos,
    "follower": follow,
}
"""Clients that do not push, by role; other roles train with the client library."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that a campaign can inject.

    Attributes:
        name: Its name in options and in the report.
        inject: Starts it; returns the function that ends it.
        seconds: Range of its length; (0, 0) for an instant.
        limit_seconds: Longest time from its end until every run accepts groups again.
    """

    name: str
    inject: Callable[[], Callable[[], None]]
    seconds: tuple[float, float] = (0.0, 0.0)
    limit_seconds: float = 10.0


class Campaign:
    """One campaign against a platform."""

    server = "Rolldeck"

    def __init__(
        self,
        url: str,
        token: str | None,
        folder: Path,
        *,
        seed: int,
        rate: float,
        groups: int = 16,
        has_fleet: bool = False,
        prefix: str = "chaos",
    ) -> None:
        """Configure a campaign.

        Args:
            url: URL of the platform.
            token: Token of an administrator or operator.
            folder: Empty folder for the history.
            seed: Seed of all random choices.
            rate: Pushes a second of all producers together.
            groups: Groups of a large push.
            has_fleet: Whether a run starts a fleet on Ray.
            prefix: First part of the names of the runs.
        """
        self._url = url
        self._token = token or ""
        self._folder = folder
        self._seed = seed
        self._rate = rate
        self._random = random.Random(seed)  # noqa: S311 a seeded workload
        self._client = Client(url, token, retry_for_seconds=READY_SECONDS)
        self._history = History(folder, -1)
        self._reader = HistoryReader(folder)
        self._groups = groups
        self._batch_size = max(LEAST_SEQUENCES, groups * SEQUENCES)
        self._roles = dict(RUNS) | (dict(FLEET) if has_fleet else {})
        self._prefix = f"{prefix}-{seed}"
        self._names = {kind: f"{self._prefix}-{kind}" for kind in self._roles}
        self._watched = {self._names[kind] for kind in RUNS}
        """Runs that must accept groups after each fault."""
        self._created: list[str] = []
        self.proxy = Proxy(urlsplit(url).hostname or "", urlsplit(url).port or 80, seed=seed)

    def network_faults(self) -> list[Fault]:
        """Return the faults of the campaign's own proxy."""

        def injector(kind: NetworkFault) -> Callable[[], Callable[[], None]]:
            def inject() -> Callable[[], None]:
                self.proxy.set_fault(kind)
                return lambda: self.proxy.set_fault("none")

            return inject

        return [Fault(f"network: {kind}", injector(kind), (2.0, 8.0)) for kind in NETWORK]

    @staticmethod
    def faults_named(faults: Sequence[Fault], words: str) -> list[Fault]:
        """Return the faults whose names have one of the words, which commas separate.

        Raises:
            ValueError: If no fault has one.
        """
        parts = [word.strip() for word in words.split(",") if word.strip()]
        found = [each for each in faults if not parts or any(part in each.name for part in parts)]
        if not found:
            names = ", ".join(fault.name for fault in faults)
            raise ValueError(f"no fault is named {words!r}; there are: {names}")
        return found

    def run(
        self,
        faults: Sequence[Fault],
        *,
        seconds: float,
        drain_seconds: float = DRAIN_SECONDS,
        on_event: Callable[[str], None] = print,
    ) -> Result:
        """Run the workload with faults, drain it, and check the history.

        Args:
            faults: The faults to choose from; none for a run without faults.
            seconds: Length of the workload before the drain.
            drain_seconds: Longest time in which trainers and followers receive nothing of the rest.
            on_event: Called with a line for each fault.
        """
        began = time.monotonic()
        with self._clients():
            injected = []
            if self._wait_for_pushes(time.monotonic(), READY_SECONDS) >= READY_SECONDS:
                raise TimeoutError(f"not every run accepted a push within {READY_SECONDS:.0f} s")
            while faults and time.monotonic() - began < seconds:
                injected.append(self._inject(faults))
                last = injected[-1]
                of_fleet = last.fleet_seconds
                fleet = "" if of_fleet is None else f", of the fleet after {of_fleet:.1f} s"
                on_event(
                    f"{time.monotonic() - began:6.0f} s  {last.name}: {last.seconds:.1f} s, "
                    f"accepted again after {last.recovery_seconds:.1f} s{fleet}"
                )
                time.sleep(CALM_SECONDS * (0.5 + self._random.random()))
            time.sleep(max(0.0, began + seconds - time.monotonic()))
            is_drained = self._drain(drain_seconds)
        return self._result(injected, is_drained, drain_seconds, time.monotonic() - began)

    def _result(
        self, injected: list[Injected], is_drained: bool, drain_seconds: float, seconds: float
    ) -> Result:
        """Check the history against the ledgers."""
        events = HistoryReader(self._folder).read()
        ledgers = {name: self._ledger(name) for name in [*self._created, *self._drained()]}
        reuse = {self._names["replay"]: REUSE}
        result = result_of(events, ledgers, injected, self._seed, seconds, reuse)
        if not is_drained:
            text = f"groups or followers are left, and none was served for {drain_seconds:.0f} s"
            result.violations.append(Violation("every_run_is_drained", "", text))
        return result

    def delete_runs(self) -> None:
        """End and delete the runs that the campaign has created."""
        reason = "the campaign has ended"
        for name in [*self._created, *self._drained()]:
            with suppress(NotFoundError):
                run = self._client.runs.get(name)
                if run.status not in ENDED:
                    run = run.kill(reason).wait(timeout_seconds=READY_SECONDS)
                run.delete(reason)

    def _drained(self) -> list[str]:
        """Return the runs that the operator has created."""
        events = HistoryReader(self._folder).read()
        return sorted({e.run for e in events if e.op == "create" and e.outcome == "ok"})

    def close(self) -> None:
        """Close the proxy and the connection."""
        self.proxy.close()
        self._client.close()

    @contextmanager
    def _clients(self) -> Iterator[list[SpawnProcess]]:
        """Create the runs, and start a process for each client."""
        plans = list(self._plans())
        context = multiprocessing.get_context("spawn")
        processes = [
            context.Process(target=run_client, args=(plan,), name=f"{plan.role} {plan.client}")
            for plan in plans
        ]
        for process in processes:
            process.start()
        try:
            yield processes
        finally:
            (self._folder / "stop").touch()
            (self._folder / "end").touch()
            for process in processes:
                process.join(30)
                process.kill()

    def _plans(self) -> Iterator[ClientPlan]:
        producers = sum(role in PUSHERS for roles in self._roles.values() for role in roles)
        connection = self._client.connection
        client = 1
        for kind, roles in self._roles.items():
            name = self._names[kind]
            self._create(kind, name)
            token = connection.json(
                Call(
                    method="POST",
                    path="/api/v1/tokens",
                    json={"name": name, "run": name, "scopes": ["env", "worker", "trainer"]},
                )
            )
            for role in roles:
                yield ClientPlan(
                    client=client,
                    role=role,
                    url=self.proxy.url if client % 2 else self._url,
                    run=name,
                    token=token["token"],
                    seed=self._seed * 1000 + client,
                    interval_seconds=producers / self._rate,
                    folder=str(self._folder),
                    groups=self._groups,
                    batch_size=self._batch_size,
                    atropos=f"/atropos/{name}",
                )
                client += 1
        yield ClientPlan(
            client=client,
            role="operator",
            url=self._url,
            run=f"{self._prefix}-drained",
            token=self._token,
            seed=self._seed * 1000 + client,
            interval_seconds=1.0,
            folder=str(self._folder),
            others=tuple(self._names[kind] for kind in RUNS if kind not in OF_FRAGMENTS),
        )

    def _create(self, kind: str, name: str) -> None:
        """Create a run; fragments are accepted once a version of the weights is published."""
        sizes = {"lease_seconds": LEASE_SECONDS, "batch_size": self._batch_size}
        if kind not in OF_FRAGMENTS:
            self._client.runs.create(name, kind="outside")
            self._created.append(name)
            body = sizes | {"off_policy_tolerance": 1024}
            call = Call(method="PATCH", path=f"/api/v1/runs/{name}", json=body)
            self._client.connection.json(call)
            return
        replay = {"sampler": "prioritized", "max_reuse": REUSE} if kind == "replay" else {}
        config = {
            "ends_at_num_steps": False,
            "buffer": sizes | {"max_staleness": 1024, "replay": replay},
            "fleet": {"num_workers": 1, "envs_per_worker": FLEET_ENVS, "fragment_length": 32},
        }
        run = self._client.runs.create(name, preset="cartpole", config=config)
        self._created.append(name)
        if kind != "fleet":
            run.pause("its clients push the fragments")
        trainer = Trainer(run=name, name="chaos", connection=self._client.connection)
        trainer.register(resume=True)
        trainer.publish_weights(weights_of("fleet", 0), step=0)

    def _inject(self, faults: Sequence[Fault]) -> Injected:
        """Inject one fault, or two that overlap, and wait until pushes are accepted again."""
        chosen = [self._random.choice(faults)]
        if len(faults) > 1 and self._random.random() < PAIRED_SHARE:
            chosen.append(self._random.choice([fault for fault in faults if fault not in chosen]))
        name = " + ".join(fault.name for fault in chosen)
        call = self._history.begin("fault", text=name)
        began = time.monotonic()
        heals: list[Callable[[], None]] = []
        failure = ""
        try:
            for fault in chosen:
                heals.append(fault.inject())
                time.sleep(self._random.uniform(*fault.seconds) / len(chosen))
        except Exception as error:  # noqa: BLE001 reported with the campaign
            failure = f"{type(error).__name__}: {error}"
        for heal in heals[::-1]:
            heal()
        self._history.end("fault", call, "ok", text=name)
        healed = time.monotonic()
        limit = sum(fault.limit_seconds for fault in chosen)
        recovery = self._wait_for_pushes(healed, limit + READY_SECONDS)
        fleet = self._wait_for_fleet(healed) if "fleet" in self._names else None
        return Injected(name, healed - began, limit, recovery, fleet, failure)

    def _wait_for_fleet(self, since: float) -> float:
        """Return the seconds after `since` until the fleet has cut new fragments.

        They are counted from the first ledger that can be read after the fault. As a spool may
        contain some of before it, each environment must have cut several.
        """
        before: int | None = None
        while time.monotonic() < since + 2 * FLEET_SECONDS:
            with suppress(RolldeckError):
                accepted = self._ledger(self._names["fleet"])["fragments"]["accepted"]
                before = accepted if before is None else before
                if accepted >= before + FLEET_ENVS * FRAGMENTS_OF_AN_ENV:
                    break
            time.sleep(0.1)
        return time.monotonic() - since

    def _wait_for_pushes(self, since: float, seconds: float) -> float:
        """Return the seconds after `since` until every run has accepted a push begun after it."""
        first: dict[str, float] = {}
        begun: set[tuple[int, int]] = set()
        while time.monotonic() < since + seconds:
            for event in self._reader.read():
                if event.at < since or event.op != "push" or event.run not in self._watched:
                    continue
                if event.outcome == "begin":
                    begun.add((event.client, event.call))
                elif event.outcome == "ok" and (event.client, event.call) in begun:
                    first.setdefault(event.run, event.at)
            if len(first) == len(self._watched):
                return max(first.values()) - since
            time.sleep(0.1)
        return seconds

    def _drain(self, seconds: float) -> bool:
        """End the pushers; return whether trainers and followers receive everything.

        They may take as long as they like, with at most `seconds` between two that are received.
        """
        (self._folder / "stop").touch()
        with suppress(KeyError, RolldeckError):
            self._client.runs.get(self._names["fleet"]).pause("the workload has ended")
        fewest, left = math.inf, math.inf
        deadline = time.monotonic() + seconds
        while left and time.monotonic() < deadline:
            time.sleep(1.0)
            left = sum(map(self._left, self._names.values()))
            if left < fewest:
                fewest, deadline = left, time.monotonic() + seconds
        (self._folder / "end").touch()
        time.sleep(3.0)
        return not left

    def _left(self, name: str) -> float:
        """Return the number of items that a run has still to serve, or its follower to read."""
        with suppress(RolldeckError):
            groups = items_of(self._ledger(name))
            path = f"/api/v1/runs/{name}/followers/chaos"
            follower = self._client.connection.json(Call(method="GET", path=path))
            is_fragments = name in {self._names.get(kind) for kind in OF_FRAGMENTS}
            least = self._batch_size // (1 if is_fragments else SEQUENCES)
            rest = groups["queued"] + groups["waiting"]
            queued = rest if rest >= least else 0
            return float(queued + groups["leased"] + follower["lag"])
        return math.inf

    def _ledger(self, name: str) -> dict[str, Any]:
        path = f"/api/v1/runs/{name}/ledger"
        ledger: dict[str, Any] = self._client.connection.json(Call(method="GET", path=path))
        return ledger


def run_client(plan: ClientPlan) -> None:
    """Run a client until the file `stop` (pushers) or `end` (others) exists in the folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the campaign ends its clients
    logging.getLogger("rolldeck").setLevel(logging.CRITICAL)
    history = History(Path(plan.folder), plan.client)
    if plan.role in PUSHERS:
        Pusher(plan, history).run()
    else:
        CLIENTS.get(plan.role, train)(plan, history)
