"""Turn batches into pushes that can wait on a disk and be repeated without harm."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct

from rolldeck.group_encoding import pack_group
from rolldeck.groups import IGNORED
from rolldeck.wire import FragmentReceipt, GroupPush, GroupsReceipt, encode
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.groups.batches import Rollout, RolloutGroup

PushGroups = Callable[[bytes, str], GroupsReceipt]
BOOTSTRAP_STEP: Final = -1
MOST_SPANS: Final = 256
"""Of one sequence, as the platform takes them."""


class Parcel(Struct, frozen=True, kw_only=True):
    """The groups of one batch, ready to be sent: what waits in a queue or a spool."""

    key: str
    """Of the request, the same however often it is sent."""
    sequences: int
    group_size: int
    content: bytes
    """An encoded :class:`rolldeck.wire.GroupPush`."""


class Outbox:
    """Counts sequences on their way through a :class:`rollouts.fleet.spool.sender.Sender`."""

    def __init__(self, offer: Callable[[bytes], None], *, worker: str) -> None:
        """Hand nothing over yet.

        Args:
            offer: Takes an encoded parcel; waits for nobody.
            worker: Name and incarnation, the beginning of every key.
        """
        self._offer = offer
        self._worker = worker
        self._lock = threading.Lock()
        self._next = 0
        self.groups = 0
        """Handed over ever."""

    def send(self, groups: Sequence[RolloutGroup], *, lesson: str) -> None:
        """Hand groups of the same size over."""
        with self._lock:
            number, self._next = self._next, self._next + 1
            self.groups += len(groups)
        size = len(groups[0].rollouts)
        push = GroupPush(
            groups=[encoded(one, lesson=lesson, worker=self._worker) for one in groups]
        )
        parcel = Parcel(
            key=f"{self._worker}/{number}",
            sequences=size * len(groups),
            group_size=size,
            content=encode(push),
        )
        self._offer(encode(parcel))


class Postman:
    """The far end: pushes parcels one by one, in order."""

    def __init__(self, push: PushGroups) -> None:
        self._push = push
        self.sent = 0
        """Groups that the platform has answered for."""
        self.dropped: dict[str, int] = {}
        """Sequences that it did not want, by reason."""

    def __call__(self, parcels: list[bytes]) -> FragmentReceipt:
        """Push parcels; what is accepted is counted in sequences.

        A request that fails leaves those before it pushed: their keys make the next try harmless.
        """
        accepted, remaining = 0, 0
        answers = [(parcel, self._pushed(parcel)) for parcel in map(decoded, parcels)]
        for parcel, receipt in answers:
            accepted += receipt.received * parcel.group_size
            remaining = receipt.admission_remaining
            self.sent += parcel.sequences // parcel.group_size
            for reason, groups in receipt.dropped.items():
                before = self.dropped.get(reason, 0)
                self.dropped[reason] = before + groups * parcel.group_size
        return FragmentReceipt(
            accepted=accepted, duplicates=0, dropped={}, admission_remaining=remaining
        )

    def _pushed(self, parcel: Parcel) -> GroupsReceipt:
        return self._push(parcel.content, parcel.key)


def decoded(content: bytes) -> Parcel:
    """Return the parcel that was encoded."""
    return msgspec.msgpack.decode(content, type=Parcel)


def encoded(group: RolloutGroup, *, lesson: str, worker: str) -> bytes:
    """Return a group as it travels: columns as arrays, where it came from as JSON.

    JSON fields: `lesson`, `worker`, `example`, and of each sequence `is_correct`, `is_truncated`
    and `policy_versions`, ``[[epoch, step, tokens], …]`` in order, own tokens only; also `spans`,
    where its environment told when its parts were made.
    """
    rollouts = group.rollouts
    columns = {
        "tokens": [np.asarray(one.tokens, dtype=np.int32) for one in rollouts],
        "masks": [
            np.where(one.is_own, np.asarray(one.tokens, dtype=np.int32), np.int32(IGNORED))
            for one in rollouts
        ],
        "inference_logprobs": [np.asarray(one.logprobs, dtype=np.float32) for one in rollouts],
        "scores": np.asarray(group.rewards, dtype=np.float64),
    }
    about = {
        "lesson": lesson,
        "worker": worker,
        "example": group.example,
        "is_correct": [one.is_correct for one in rollouts],
        "is_truncated": [one.is_truncated for one in rollouts],
        "policy_versions": [_runs(one) for one in rollouts],
    }
    if any(one.spans for one in rollouts):
        about["spans"] = [_spans(one) for one in rollouts]
    return encode(pack_group(columns | _version(group.policy_version) | about))


def _spans(rollout: Rollout) -> list[dict[str, Any]]:
    """Return when its parts were made, to the millisecond; of very many turns the first."""
    return [
        {"name": span.name, "start": round(span.start, 3), "end": round(span.end, 3)}
        for span in rollout.spans[:MOST_SPANS]
    ]


def _version(version: Version) -> dict[str, int]:
    """Return the fields of a version; a group cannot name the weights that a run begins with."""
    epoch, step = version
    return {} if step == BOOTSTRAP_STEP else {"epoch": epoch, "policy_step": step}


def _runs(rollout: Rollout) -> list[list[int]]:
    """Return own tokens as runs of the same version."""
    runs: list[list[int]] = []
    for version in rollout.versions:
        if version is None:
            continue
        if runs and tuple(runs[-1][:2]) == version:
            runs[-1][2] += 1
        else:
            runs.append([*version, 1])
    return runs
