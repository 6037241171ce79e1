"""Clients of the workload: pushers, trainers, followers, each in a process of its own.

Each call is one attempt with a short timeout, recorded before it is sent and after its answer.
"""

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import numpy as np
import urllib3
from numpy.typing import NDArray

from rolldeck import wire
from rolldeck.batches import Batch
from rolldeck.chaos.content import digest_of, fragment_of, group_of, mark_of, mark_of_fragment
from rolldeck.chaos.history import History, Mark, Outcome
from rolldeck.errors import LeaseLostError, RolldeckError
from rolldeck.followers import Followed, Follower
from rolldeck.group_encoding import pack_group
from rolldeck.http import Backoff, Connection
from rolldeck.replay import ReplayBufferInterface
from rolldeck.trainer import Trainer

Role = Literal[
    "json",
    "list",
    "binary",
    "keyless",
    "fragments",
    "atropos",
    "trainer",
    "ranks",
    "replay",
    "fleet",
    "follower",
    "operator",
]
PUSHERS: Final[frozenset[Role]] = frozenset({"json", "list", "binary", "keyless", "fragments"})
ATTEMPT_SECONDS: Final = 5.0
"""Timeout of one attempt: shorter than most faults, as in stock clients."""
SHARE: Final[dict[str, float]] = {"list": 0.25, "binary": 1.0, "fragments": 1.0}
"""Share of the option `groups` in a push; other pushers send one group."""
MOST_FETCHED: Final = 1024
RETRY_SECONDS: Final = 0.25
FORGOTTEN: Final = 0.01
"""Share of batches that a trainer does not acknowledge in time."""
PUBLISH_EVERY: Final = 5
PUBLISH_SELDOM: Final = 50
"""Fragments claim version 0, which must not become stale."""
LEASE_SECONDS: Final = 6.0
IDLE_SECONDS: Final = 0.2


class ClientPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One client of the workload.

    Attributes:
        client: Number, part of the content of its groups.
        role: What it does.
        url: URL of the platform, or of the proxy in front of it.
        run: Name of its run.
        token: Its token.
        seed: Seed of its random choices.
        interval_seconds: Mean interval between pushes.
        groups: Groups of a large push.
        batch_size: Sequences, or fragments, of a batch.
        atropos: Path of the Atropos API; empty for a server of Atropos itself.
        others: Runs that the operator pauses and resumes.
        folder: Folder of the history, and of the file `stop` that ends the pushers.
    """

    client: int
    role: Role
    url: str
    run: str
    token: str
    seed: int
    interval_seconds: float
    folder: str
    groups: int = 16
    batch_size: int = 32
    atropos: str = ""
    others: tuple[str, ...] = ()

    @property
    def is_keyed(self) -> bool:
        """Whether a repeated push is stored once; a server of Atropos reads no keys."""
        return self.role != "keyless" and bool(self.atropos)


def is_over(plan: ClientPlan) -> bool:
    """Return whether the client is to end."""
    name = "stop" if plan.role in PUSHERS or plan.role == "operator" else "end"
    return parent_is_gone() or (Path(plan.folder) / name).exists()


def parent_is_gone() -> bool:
    """Return whether the campaign was killed."""
    return os.getppid() == 1


def authorization(plan: ClientPlan) -> dict[str, str]:
    """Return the header of the client's token, if it has one."""
    return {"Authorization": f"Bearer {plan.token}"} if plan.token else {}


class Pusher:
    """Producer that pushes group after group; with keys, each until it is resolved."""

    def __init__(self, plan: ClientPlan, history: History) -> None:
        """Open a pool with one connection."""
        self._plan = plan
        self._history = history
        self._random = random.Random(plan.seed)  # noqa: S311 a seeded workload
        self._http = urllib3.PoolManager(retries=False, timeout=ATTEMPT_SECONDS, maxsize=1)
        self._number = 0

    def run(self) -> None:
        """Push until the end; a keyed group is resolved before the client ends."""
        plan = self._plan
        while not is_over(plan):
            self.push(max(1, int(plan.groups * SHARE.get(plan.role, 0))))
            time.sleep(self._random.expovariate(1 / plan.interval_seconds))

    def push(self, count: int) -> None:
        """Push the next groups."""
        marks = [(self._plan.client, self._number + at) for at in range(count)]
        self._number += count
        path, headers, body = self._message(marks)
        is_repeated = self._plan.role != "keyless"
        while not self._attempt(marks, path, headers, body) and is_repeated:
            if parent_is_gone():
                return
            time.sleep(RETRY_SECONDS)

    def _message(self, marks: Sequence[Mark]) -> tuple[str, dict[str, str], bytes]:
        plan = self._plan
        headers = {"Content-Type": "application/json"} | authorization(plan)
        if plan.role == "fragments":
            # Slot and number identify a fragment; it needs no key.
            body = wire.encode_push([fragment_of(*mark) for mark in marks])
            headers["Content-Type"] = wire.FRAGMENTS_TYPE
            return f"/api/v1/runs/{plan.run}/fragments", headers, body
        groups = [group_of(*mark) for mark in marks]
        if plan.is_keyed:
            headers["Idempotency-Key"] = f"{plan.client}/{marks[0][1]}"
        if plan.role == "binary":
            content = [wire.encode(pack_group(group)) for group in groups]
            headers["Content-Type"] = wire.GROUPS_TYPE
            body = wire.encode(wire.GroupPush(groups=content))
            return f"/api/v1/runs/{plan.run}/groups", headers, body
        if plan.role == "list":
            return f"{plan.atropos}/scored_data_list", headers, msgspec.json.encode(groups)
        return f"{plan.atropos}/scored_data", headers, msgspec.json.encode(groups[0])

    def _attempt(
        self, marks: Sequence[Mark], path: str, headers: dict[str, str], body: bytes
    ) -> bool:
        """Send once; return whether the groups are accepted or refused for good."""
        plan, history = self._plan, self._history
        pushed = {"run": plan.run, "marks": tuple(marks), "is_keyed": plan.is_keyed}
        call = history.begin("push", **pushed)

        def end(outcome: Outcome, **fields: object) -> None:
            history.end("push", call, outcome, **pushed, **fields)

        try:
            answer = self._http.request("POST", plan.url + path, headers=headers, body=body)
        except urllib3.exceptions.HTTPError as error:
            end("unknown", text=type(error).__name__)
            return False
        status = answer.status
        known = {"status": status, "retry_after": "Retry-After" in answer.headers}
        if status < 300:
            end("ok", **known)
            return True
        # 409: the first attempt with this key is in flight; 408: the server dropped the request.
        is_unknown = status >= 500 and status not in {503, 507}
        text = answer.data[:200].decode(errors="replace")
        end("unknown" if is_unknown else "refused", **known, text=text)
        return status < 500 and status not in {408, 409, 429}


@contextmanager
def recorded(history: History, op: str, **fields: object) -> Iterator[Callable[..., None]]:
    """Record a call of the client library; yield a function that records its success."""
    call = history.begin(op, **fields)
    is_ended = False

    def end(**more: object) -> None:
        nonlocal is_ended
        is_ended = True
        history.end(op, call, "ok", **(fields | more))

    try:
        yield end
    except RolldeckError as error:
        if not is_ended:
            is_unknown = error.status == 0 or (error.status >= 500 and error.status != 503)
            outcome: Outcome = "unknown" if is_unknown else "refused"
            # The library checks the header: without it, a wait of its own follows.
            history.end(
                op,
                call,
                outcome,
                status=error.status,
                retry_after=True,
                text=f"{error.code}: {error.detail}"[:200],
                **fields,
            )
        raise


def connection_of(plan: ClientPlan) -> Connection:
    """Return a connection without retries: each attempt is a call of the history."""
    return Connection(
        plan.url,
        plan.token or None,
        timeout_seconds=ATTEMPT_SECONDS,
        retry_for_seconds=0,
        backoff=Backoff(first_seconds=RETRY_SECONDS),
    )


def items_of(received: Batch | Followed) -> dict[str, object]:
    """Return the fields of an event that describe received groups or fragments."""
    if received.head.kind == "groups":
        return groups_of(received.groups)
    return _described([mark_of_fragment(item) for item in received.items], list(received.items))


def groups_of(received: Sequence[dict[str, Any]]) -> dict[str, object]:
    """Return the fields of an event that describe received groups."""
    names = ("tokens", "masks", "scores")
    contents = [[group.get(name) for name in names] for group in received]
    return _described([mark_of(group) for group in received], contents)


def _described(read: Sequence[tuple[Mark | None, bool]], contents: object) -> dict[str, object]:
    return {
        "marks": tuple(mark or (-1, -1) for mark, _ in read),
        "damaged": sum(not is_equal for _, is_equal in read),
        "digest": digest_of(contents),
    }


def train(plan: ClientPlan, history: History) -> None:
    """Lease, acknowledge and publish with the library; sometimes let a lease expire.

    With the role `ranks`, two ranks lease their shards of each batch.
    """
    publish_every = PUBLISH_EVERY
    chance = random.Random(plan.seed)  # noqa: S311 a seeded workload
    size = 2 if plan.role == "ranks" else 1
    connection = connection_of(plan)
    ranks = [
        Trainer(run=plan.run, name="chaos", rank=rank, world_size=size, connection=connection)
        for rank in range(size)
    ]
    version = -1
    acknowledged = 0
    while not is_over(plan):
        try:
            if ranks[0].registration is None:
                registration = ranks[0].register(resume=True)
                version = max(version, registration.policy_step)
                if registration.config:  # a run with a fleet
                    publish_every = PUBLISH_SELDOM
            shards = [lease(plan, history, trainer) for trainer in ranks]
            if shards[0] is None:
                continue
            if len({shard.head.id for shard in shards if shard is not None}) > 1 or None in shards:
                continue  # the lease expired between two ranks
            if chance.random() < FORGOTTEN:
                _forget(plan, history, ranks[0], shards[0])
                continue
            for trainer, shard in list(zip(ranks, shards, strict=True))[::-1]:
                if shard is not None:
                    acknowledge(plan, history, trainer, shard)
            acknowledged += 1
            if acknowledged % publish_every == 0:
                version = _publish(plan, history, ranks[0], version + 1)
        except RolldeckError:
            time.sleep(RETRY_SECONDS)


def lease(plan: ClientPlan, history: History, trainer: Trainer) -> Batch | None:
    """Lease the next batch, or the shard of a rank; None if there is none."""
    shard = (trainer.rank, trainer.world_size)
    with recorded(history, "lease", run=plan.run, shard=shard) as end:
        batch, _ = trainer.poll_batch(1.0)
        if batch is None:
            end()
            return None
        end(**lease_of(batch))
    return batch


def lease_of(batch: Batch) -> dict[str, object]:
    """Return the fields of an event that describe a leased batch."""
    head = batch.head
    return {"batch": head.id, "ordinal": head.ordinal, "fence": head.fence, **items_of(batch)}


def acknowledge(plan: ClientPlan, history: History, trainer: Trainer, batch: Batch) -> None:
    """Acknowledge a batch; an unknown outcome is repeated with the same fence."""
    head = batch.head
    fields: dict[str, Any] = {"run": plan.run, "batch": head.id, "fence": head.fence}
    if trainer.rank > 0:
        trainer.ack(batch)
        return
    while True:
        try:
            with recorded(history, "ack", **fields, ordinal=head.ordinal) as end:
                trainer.ack(batch)
                end()
        except LeaseLostError:
            return
        except RolldeckError as error:
            if 400 <= error.status < 500 and error.status != 429:
                return
            if is_over(plan):
                raise
            time.sleep(RETRY_SECONDS)
        else:
            return


def _forget(plan: ClientPlan, history: History, trainer: Trainer, batch: Batch) -> None:
    """Wait until a lease expires, lease again, and acknowledge under the old fence."""
    time.sleep(LEASE_SECONDS + 1)
    if lease(plan, history, trainer) is not None:
        acknowledge(plan, history, trainer, batch)


def _publish(plan: ClientPlan, history: History, trainer: Trainer, version: int) -> int:
    content = weights_of(plan.role, version)
    digest = digest_of({name: tensor.tolist() for name, tensor in content.items()})
    fields = {"run": plan.run, "version": version, "digest": digest}
    with recorded(history, "publish", **fields) as end:
        trainer.publish_weights(content, step=version)
        end()
    with recorded(history, "weights", run=plan.run) as end:
        manifest, tensors = trainer.current_weights()
        found = {name: tensor.tolist() for name, tensor in tensors.items()}
        end(version=manifest.step, digest=digest_of(found))
    return version


def weights_of(role: Role, version: int) -> dict[str, NDArray[Any]]:
    """Return tensors that follow from a version; those of a fleet fit the policy of CartPole."""
    if role != "fleet":
        return {"weight": np.full(256, version, np.float32)}
    sizes = {"policy_net": (4, 64, 64, 2), "value_net": (4, 64, 64, 1)}
    return {
        f"{net}.{2 * at}.{kind}": np.full(shape, version / 1000, np.float32)
        for net, units in sizes.items()
        for at in range(3)
        for kind, shape in (("weight", (units[at + 1], units[at])), ("bias", (units[at + 1],)))
    }


def replay(plan: ClientPlan, history: History) -> None:
    """Sample fragments and set their priorities; each request acknowledges the last batch."""
    buffer = ReplayBufferInterface(run=plan.run, name="chaos", connection=connection_of(plan))
    trained: Batch | None = None
    is_registered = False
    while not is_over(plan):
        try:
            if not is_registered:
                buffer.update_training_session(resume=True)
                is_registered = True
            with ExitStack() as calls:
                end_ack = end_lease = calls.enter_context(recorded(history, "lease", run=plan.run))
                if trained is not None:
                    head = trained.head
                    fields = {"batch": head.id, "fence": head.fence, "ordinal": head.ordinal}
                    end_ack = calls.enter_context(recorded(history, "ack", run=plan.run, **fields))
                batch = buffer.fetch(plan.batch_size, 1.0, ack=trained)
                if trained is not None:
                    end_ack()
                trained = None
                end_lease(**({} if batch is None else lease_of(batch)))
            if batch is not None:
                buffer.update_priorities(batch, [1.0 + at for at in range(len(batch))])
                trained = batch
        except LeaseLostError:
            trained = None
        except RolldeckError:
            time.sleep(RETRY_SECONDS)


def train_like_atropos(plan: ClientPlan, history: History) -> None:
    """Take batches as Atropos' example trainer does: the next request acknowledges the last."""
    http = urllib3.PoolManager(retries=False, timeout=ATTEMPT_SECONDS, maxsize=1)
    headers = {"Content-Type": "application/json"} | authorization(plan)
    root = plan.url + plan.atropos
    registration = {
        "wandb_group": "chaos",
        "wandb_project": "chaos",
        "batch_size": plan.batch_size,
        "max_token_len": 16_384,
        "checkpoint_dir": "",
        "save_checkpoint_interval": 0,
        "starting_step": 0,
        "num_steps": 1 << 30,
    }
    is_registered = False
    while not is_over(plan):
        call = history.begin("lease", run=plan.run)
        try:
            if not is_registered:
                body = msgspec.json.encode(registration)
                answer = http.request("POST", f"{root}/register", headers=headers, body=body)
                is_registered = answer.status < 300
            answer = http.request("GET", f"{root}/batch", headers=headers)
            content = answer.json() if answer.status < 300 else {"batch": None}
            received = content["batch"]
            is_registered = is_registered and content.get("status") != "error"
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            history.end("lease", call, "unknown", run=plan.run, text=type(error).__name__)
            is_registered = is_registered and not plan.atropos
            time.sleep(RETRY_SECONDS)
            continue
        known = {"status": answer.status, "retry_after": "Retry-After" in answer.headers}
        if answer.status >= 300:
            text = answer.data[:200].decode(errors="replace")
            history.end("lease", call, "refused", run=plan.run, text=text, **known)
            time.sleep(RETRY_SECONDS)
        else:
            history.end("lease", call, "ok", run=plan.run, **known, **groups_of(received or []))
            time.sleep(0 if received else IDLE_SECONDS)


def follow(plan: ClientPlan, history: History) -> None:
    """Read all groups of a run in the order of acceptance; record those acknowledged."""
    with Follower(run=plan.run, name="chaos", connection=connection_of(plan)) as follower:
        is_begun = False
        while not is_over(plan):
            try:
                if not is_begun:
                    follower.begin(start="earliest")
                    is_begun = True
                items = follower.fetch(min(4 * plan.groups, MOST_FETCHED), wait_seconds=1)
                if items is None:
                    continue
                fields = {"run": plan.run, **items_of(items)}
                while True:
                    try:
                        with recorded(history, "follow", **fields) as end:
                            follower.ack(items)
                            end()
                        break
                    except RolldeckError:
                        if is_over(plan):
                            return
                        time.sleep(RETRY_SECONDS)
            except RolldeckError:
                time.sleep(RETRY_SECONDS)
