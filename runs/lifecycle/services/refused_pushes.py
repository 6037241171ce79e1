"""Count the refused pushes of each environment, by reason.

Pushes that name no environment of their run are counted for the run. A refused push costs one
append to a bounded list. A thread of the process adds the pushes of the last seconds to their
environments and runs; a process that dies loses them.
"""

import logging
import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final

import msgspec
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q

from runs.lifecycle.models import Environment, Run
from runs.lifecycle.schemas import RefusedPushes
from web.rules.texts import storable

logger = logging.getLogger(__name__)

# Per environment or run; further reasons are counted together.
REASONS_KEPT: Final = 20
FURTHER: Final = "other"
LONGEST_MESSAGE: Final = 300
# Between two flushes; further pushes evict the oldest.
PUSHES_AT_MOST: Final = 20_000
FLUSH_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedPush:
    """A refused push."""

    run: int | str | None
    """Id of the run, or its name if it is not looked up yet; None for the default run."""
    groups: int
    """Groups of the push, at least 1."""
    groups_by_env: Mapping[int, int]
    """Groups of each environment that it named; the run may not have it."""
    reason: str
    """A short reason code."""
    message: str
    """The full refusal as sent to the environment."""
    at: datetime
    pushes: int = 1
    """Number of such pushes."""


class _Buffer:
    """Refused pushes since the last flush, and the thread that flushes them."""

    def __init__(self) -> None:
        self._pushes: deque[RefusedPush] = deque(maxlen=PUSHES_AT_MOST)
        self._filled = threading.Event()
        self._flushing = threading.Lock()
        threading.Thread(target=self._flush_for_ever, name="refused-pushes", daemon=True).start()

    def add(self, push: RefusedPush) -> None:
        self._pushes.append(push)
        self._filled.set()

    def flush(self) -> None:
        with self._flushing:
            pushes = []
            while self._pushes:
                pushes.append(self._pushes.popleft())
            # Of the environments that they name, or else of the run.
            if pushes and (unmatched := _count_for_environments(_by_run(pushes))):
                count_for_runs(unmatched)

    def _flush_for_ever(self) -> None:
        while True:
            self._filled.wait()
            time.sleep(FLUSH_SECONDS)
            self._filled.clear()
            try:
                self.flush()
            except Exception:
                logger.exception("refused pushes of the last seconds were not counted")
            finally:
                connection.close()  # the thread sleeps for seconds and must not hold one


@cache
def _buffer(pid: int) -> _Buffer:  # noqa: ARG001 threads do not survive a fork
    return _Buffer()


def record_refused_push(push: RefusedPush) -> None:
    """Count a refused push within seconds; never wait, never raise."""
    if settings.COUNT_REFUSED_PUSHES:
        _buffer(os.getpid()).add(push)


def flush_refused_pushes() -> None:
    """Count the refused pushes of this process now."""
    _buffer(os.getpid()).flush()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """Groups of one push that are counted for an environment or a run."""

    groups: int
    push: RefusedPush


def _by_run(pushes: Sequence[RefusedPush]) -> list[tuple[int, RefusedPush]]:
    """Return the pushes to current runs, with the ids of their runs."""
    names = {push.run for push in pushes if isinstance(push.run, str)}
    current = Run.objects.current()
    ids: dict[int | str | None, int] = {}
    for run in current.filter(Q(name__in=names) | Q(uid__in=names)).only("name", "uid"):
        ids |= {run.name: run.pk, run.uid: run.pk}
    if any(push.run is None for push in pushes):
        default = current.filter(is_default=True).values_list("id", flat=True).first()
        if default is not None:
            ids[None] = default
    found = [
        (push.run if isinstance(push.run, int) else ids.get(push.run), push) for push in pushes
    ]
    return [(run_id, push) for run_id, push in found if run_id is not None]


@transaction.atomic
def _count_for_environments(
    pushes: Sequence[tuple[int, RefusedPush]],
) -> list[tuple[int, RefusedPush]]:
    """Count pushes for their environments; return those that name none of their run."""
    of_each: dict[tuple[int, int], list[_Refusal]] = defaultdict(list)
    for run_id, push in pushes:
        for env_id, groups in push.groups_by_env.items():
            of_each[run_id, env_id].append(_Refusal(groups=groups, push=push))
    runs, named = ({key[place] for key in of_each} for place in (0, 1))
    matched: set[tuple[int, int]] = set()
    # In a fixed order, to avoid deadlocks.
    rows = Environment.objects.filter(run_id__in=runs, env_id__in=named).order_by("pk")
    for row in rows.select_for_update():
        mine = of_each.get((row.run_id, row.env_id), [])
        if mine:
            matched.add((row.run_id, row.env_id))
            row.refused = _with(row.refused, mine)
            row.save(update_fields=["refused"])
    return [
        (run_id, push)
        for run_id, push in pushes
        if not matched & {(run_id, env_id) for env_id in push.groups_by_env}
    ]


@transaction.atomic
def count_for_runs(pushes: Iterable[tuple[int, RefusedPush]]) -> None:
    """Add pushes to the counts of their runs now."""
    of_each: dict[int, list[_Refusal]] = defaultdict(list)
    for run_id, push in pushes:
        of_each[run_id].append(_Refusal(groups=push.groups, push=push))
    for run in Run.objects.filter(pk__in=of_each).order_by("pk").select_for_update(no_key=True):
        run.refused = _with(run.refused, of_each[run.pk])
        run.save(update_fields=["refused"])


def _with(counted: dict[str, Any] | None, refusals: Iterable[_Refusal]) -> dict[str, Any]:
    """Return counts by reason with further refusals."""
    counts = msgspec.convert(counted or {}, dict[str, RefusedPushes])
    for refusal in refusals:
        push, reason = refusal.push, refusal.push.reason
        if reason not in counts and len(counts) >= REASONS_KEPT:
            reason = FURTHER
        before = counts.get(reason)
        counts[reason] = RefusedPushes(
            pushes=push.pushes + (before.pushes if before else 0),
            groups=refusal.groups + (before.groups if before else 0),
            newest_at=push.at,
            message=storable(push.message[:LONGEST_MESSAGE]),
        )
    return msgspec.to_builtins(counts)  # type: ignore[no-any-return]
