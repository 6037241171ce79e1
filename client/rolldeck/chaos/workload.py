"""Clients of the workload: pushers, trainers, followers, each in a process of its own.

Each call is one attempt with a short timeout, recorded before it is sent and after its answer.
"""

import json
import logging
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import numpy as np
import urllib3

from rolldeck import wire
from rolldeck.batches import Batch
from rolldeck.chaos.content import digest_of, group_of, mark_of
from rolldeck.chaos.history import History, Mark, Outcome
from rolldeck.errors import LeaseLostError, RolldeckError
from rolldeck.followers import Follower
from rolldeck.group_encoding import pack_group
from rolldeck.http import Backoff, Connection
from rolldeck.trainer import Trainer

Role = Literal["json", "list", "binary", "keyless", "atropos", "trainer", "ranks", "follower"]
ATTEMPT_SECONDS: Final = 5.0
"""Timeout of one attempt: shorter than most faults, as in stock clients."""
GROUPS: Final = {"json": 1, "keyless": 1, "list": 4, "binary": 16}
"""Groups of a push."""
RETRY_SECONDS: Final = 0.25
FORGOTTEN: Final = 0.01
"""Share of batches that a trainer does not acknowledge in time."""
PUBLISH_EVERY: Final = 5
LEASE_SECONDS: Final = 6.0
BATCH_SEQUENCES: Final = 32
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


def run_client(plan: ClientPlan) -> None:
    """Run a client until the file `stop` (pushers) or `end` (others) exists in the folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the campaign ends its clients
    logging.getLogger("rolldeck").setLevel(logging.CRITICAL)
    history = History(Path(plan.folder), plan.client)
    if plan.role in GROUPS:
        Pusher(plan, history).run()
    elif plan.role == "atropos":
        train_like_atropos(plan, history)
    elif plan.role == "follower":
        follow(plan, history)
    else:
        train(plan, history)


def is_over(plan: ClientPlan) -> bool:
    """Return whether the client is to end."""
    name = "stop" if plan.role in GROUPS else "end"
    parent_is_gone = os.getppid() == 1
    return parent_is_gone or (Path(plan.folder) / name).exists()


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
            count = GROUPS[plan.role]
            marks = [(plan.client, self._number + at) for at in range(count)]
            self._number += count
            path, headers, body = self._message(marks)
            while not self._attempt(marks, path, headers, body) and plan.role != "keyless":
                time.sleep(RETRY_SECONDS)
            time.sleep(self._random.expovariate(1 / plan.interval_seconds))

    def _message(self, marks: Sequence[Mark]) -> tuple[str, dict[str, str], bytes]:
        plan = self._plan
        groups = [group_of(*mark) for mark in marks]
        headers = {"Authorization": f"Bearer {plan.token}", "Content-Type": "application/json"}
        if plan.role != "keyless":
            headers["Idempotency-Key"] = f"{plan.client}/{marks[0][1]}"
        if plan.role == "binary":
            content = [wire.encode(pack_group(group)) for group in groups]
            headers["Content-Type"] = wire.GROUPS_TYPE
            body = wire.encode(wire.GroupPush(groups=content))
            return f"/api/v1/runs/{plan.run}/groups", headers, body
        if plan.role == "list":
            return f"/atropos/{plan.run}/scored_data_list", headers, json.dumps(groups).encode()
        return f"/atropos/{plan.run}/scored_data", headers, json.dumps(groups[0]).encode()

    def _attempt(
        self, marks: Sequence[Mark], path: str, headers: dict[str, str], body: bytes
    ) -> bool:
        """Send once; return whether the groups are accepted or refused for good."""
        plan, history = self._plan, self._history
        call = history.begin(
            "push", run=plan.run, marks=tuple(marks), is_keyed=plan.role != "keyless"
        )

        def end(outcome: Outcome, **fields: object) -> None:
            history.end(
                "push",
                call,
                outcome,
                run=plan.run,
                marks=tuple(marks),
                is_keyed=plan.role != "keyless",
                **fields,
            )

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
        plan.token,
        timeout_seconds=ATTEMPT_SECONDS,
        retry_for_seconds=0,
        backoff=Backoff(first_seconds=RETRY_SECONDS),
    )


def groups_of(received: Sequence[dict[str, Any]]) -> dict[str, object]:
    """Return the fields of an event that describe received groups."""
    read = [mark_of(group) for group in received]
    contents = [[group.get(name) for name in ("tokens", "masks", "scores")] for group in received]
    return {
        "marks": tuple(mark or (-1, -1) for mark, _ in read),
        "damaged": sum(not is_equal for _, is_equal in read),
        "digest": digest_of(contents),
    }


def train(plan: ClientPlan, history: History) -> None:
    """Lease, acknowledge and publish with the library; sometimes let a lease expire.

    With the role `ranks`, two ranks lease their shards of each batch.
    """
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
                registration = ranks[0].register(resume=True, batch_size=BATCH_SEQUENCES)
                version = max(version, registration.policy_step)
            shards = [_lease(plan, history, trainer) for trainer in ranks]
            if shards[0] is None:
                continue
            if len({shard.head.id for shard in shards if shard is not None}) > 1 or None in shards:
                continue  # the lease expired between two ranks
            if chance.random() < FORGOTTEN:
                _forget(plan, history, ranks[0], shards[0])
                continue
            for trainer, shard in list(zip(ranks, shards, strict=True))[::-1]:
                if shard is not None:
                    _acknowledge(plan, history, trainer, shard)
            acknowledged += 1
            if acknowledged % PUBLISH_EVERY == 0:
                version = _publish(plan, history, ranks[0], version + 1)
        except RolldeckError:
            time.sleep(RETRY_SECONDS)


def _lease(plan: ClientPlan, history: History, trainer: Trainer) -> Batch | None:
    shard = (trainer.rank, trainer.world_size)
    with recorded(history, "lease", run=plan.run, shard=shard) as end:
        batch, _ = trainer.poll_batch(1.0)
        if batch is None:
            end()
            return None
        head = batch.head
        end(batch=head.id, ordinal=head.ordinal, fence=head.fence, **groups_of(batch.groups))
    return batch


def _acknowledge(plan: ClientPlan, history: History, trainer: Trainer, batch: Batch) -> None:
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
    if _lease(plan, history, trainer) is not None:
        _acknowledge(plan, history, trainer, batch)


def _publish(plan: ClientPlan, history: History, trainer: Trainer, version: int) -> int:
    content = np.full(256, version, np.float32)
    digest = digest_of(content.tolist())
    fields = {"run": plan.run, "version": version, "digest": digest}
    with recorded(history, "publish", **fields) as end:
        trainer.publish_weights({"weight": content}, step=version)
        end()
    with recorded(history, "weights", run=plan.run) as end:
        manifest, tensors = trainer.current_weights()
        end(version=manifest.step, digest=digest_of(tensors["weight"].tolist()))
    return version


def train_like_atropos(plan: ClientPlan, history: History) -> None:
    """Take batches as Atropos' example trainer does: the next request acknowledges the last."""
    http = urllib3.PoolManager(retries=False, timeout=ATTEMPT_SECONDS, maxsize=1)
    headers = {"Authorization": f"Bearer {plan.token}", "Content-Type": "application/json"}
    root = f"{plan.url}/atropos/{plan.run}"
    registration = {
        "wandb_group": "chaos",
        "wandb_project": "chaos",
        "batch_size": BATCH_SEQUENCES,
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
                body = json.dumps(registration).encode()
                answer = http.request("POST", f"{root}/register", headers=headers, body=body)
                is_registered = answer.status < 300
            answer = http.request("GET", f"{root}/batch", headers=headers)
            received = answer.json()["batch"] if answer.status < 300 else None
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            history.end("lease", call, "unknown", run=plan.run, text=type(error).__name__)
            is_registered = False
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
                items = follower.fetch(64, wait_seconds=1)
                if items is None:
                    continue
                fields = {"run": plan.run, **groups_of(items.groups)}
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
