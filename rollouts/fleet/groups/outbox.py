"""Encode batches as idempotent pushes that can be spooled to disk."""

import threading
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct

from rolldeck import tracing
from rolldeck.group_encoding import pack_group
from rolldeck.groups import IGNORED
from rolldeck.wire import FragmentReceipt, GroupPush, GroupsReceipt, encode
from rollouts.fleet.groups.batches import RolloutGroup
from rollouts.fleet.spool.sender import REFUSED

PushGroups = Callable[[bytes, str], GroupsReceipt]
OnEnd = Callable[[str, Sequence[int]], None]
MOST_SPANS: Final = 256
"""Maximum number of spans per sequence that the platform accepts."""


class GroupEnvelope(Struct, frozen=True, kw_only=True):
    """Encoded groups of one batch, as stored in a queue or a spool."""

    key: str
    """Idempotency key of the request, the same for every attempt."""
    sequences: int
    group_size: int
    content: bytes
    """An encoded :class:`rolldeck.wire.GroupPush`."""
    lesson: str = ""
    problems: list[int] = []
    """Numbers of the problems that the groups answer."""
    traceparent: str = ""
    """Trace of the rollouts, which the push continues; empty if the worker is not traced."""


class Outbox:
    """Encodes groups for a :class:`rollouts.fleet.spool.sender.Sender` and counts them."""

    def __init__(self, offer: Callable[[bytes], None], *, worker: str) -> None:
        """Start with an empty outbox; the name and incarnation `worker` begin every key."""
        self._offer = offer
        self._worker = worker
        self._lock = threading.Lock()
        self._next = 0
        self.groups = 0
        """Total number of groups handed over."""

    def send(self, groups: Sequence[RolloutGroup], *, lesson: str) -> None:
        """Queue groups of equal size for sending."""
        with self._lock:
            number, self._next = self._next, self._next + 1
            self.groups += len(groups)
        size = len(groups[0].rollouts)
        problems = [group.number for group in groups if group.number is not None]
        push = GroupPush(
            groups=[encoded(one, lesson=lesson, worker=self._worker) for one in groups],
            lesson=lesson,
            problems=problems,
        )
        envelope = GroupEnvelope(
            key=f"{self._worker}/{number}",
            sequences=size * len(groups),
            group_size=size,
            content=encode(push),
            lesson=lesson,
            problems=problems,
            traceparent=tracing.headers().get("traceparent", ""),
        )
        self._offer(encode(envelope))


class GroupSender:
    """Pushes batches to the platform one by one, in order."""

    def __init__(self, push: PushGroups, *, on_end: OnEnd = lambda *_: None) -> None:
        """Push with `push`; `on_end` receives the lesson and the problems of each ended push."""
        self._push, self._on_end = push, on_end
        self.sent = 0
        """Number of groups that the platform has answered for."""
        self.dropped: dict[str, int] = {}
        """Number of sequences that the platform dropped, by reason."""

    def __call__(self, envelopes: list[bytes]) -> FragmentReceipt:
        """Push batches and return a receipt that counts sequences.

        If a request fails, earlier batches stay pushed; their keys make a retry harmless.
        """
        answers = []
        for content in envelopes:
            envelope = msgspec.msgpack.decode(content, type=GroupEnvelope)
            about = {"rolldeck.items": envelope.sequences // envelope.group_size}
            parent = {"traceparent": envelope.traceparent}
            with tracing.span("push groups", about, parent=parent):
                try:
                    answers.append((envelope, self._push(envelope.content, envelope.key)))
                except REFUSED:
                    if len(envelopes) == 1:  # otherwise each is sent again alone
                        self._on_end(envelope.lesson, envelope.problems)
                    raise
        accepted, remaining = 0, 0
        for envelope, receipt in answers:
            accepted += receipt.received * envelope.group_size
            remaining = receipt.admission_remaining
            self.sent += envelope.sequences // envelope.group_size
            self._on_end(envelope.lesson, envelope.problems)
            for reason, groups in receipt.dropped.items():
                before = self.dropped.get(reason, 0)
                self.dropped[reason] = before + groups * envelope.group_size
        return FragmentReceipt(
            accepted=accepted, duplicates=0, dropped={}, admission_remaining=remaining
        )


def encoded(group: RolloutGroup, *, lesson: str, worker: str) -> bytes:
    """Return the encoding of a group: columns as arrays, provenance as JSON.

    JSON fields: `lesson`, `worker`, `example`, and per sequence `is_correct`, `is_truncated` and
    `policy_versions`, ``[[epoch, step, tokens], …]`` in order, own tokens only. `spans` is present
    if the environment timed its parts, in milliseconds precision; `traceparent` if the worker is
    traced.
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
    about: dict[str, Any] = {
        "lesson": lesson,
        "worker": worker,
        "example": group.example,
        "is_correct": [one.is_correct for one in rollouts],
        "is_truncated": [one.is_truncated for one in rollouts],
        "policy_versions": [
            [[*version, len(list(equal))] for version, equal in groupby(filter(None, one.versions))]
            for one in rollouts
        ],
    }
    if traceparent := tracing.headers().get("traceparent"):
        about["traceparent"] = traceparent
    if any(one.spans for one in rollouts):
        about["spans"] = [
            [
                {"name": span.name, "start": round(span.start, 3), "end": round(span.end, 3)}
                for span in one.spans[:MOST_SPANS]
            ]
            for one in rollouts
        ]
    epoch, step = group.policy_version
    if step >= 0:  # the initial weights of a run, and of a server with fixed ones, have no step
        about |= {"epoch": epoch, "policy_step": step}
    return encode(pack_group(columns | about))
