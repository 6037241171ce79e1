"""Placement of arriving groups: queued, dropped, or waiting for others."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from django.db import connection
from msgspec import Struct

from buffer.ingest.rules.versions import drop_reason, version_of
from buffer.ingest.rules.waiting import WaitingGroups
from buffer.ingest.schemas.groups import Group
from buffer.items.models import TrajectoryGroup
from buffer.items.rules.states import DropReason, ItemKind, ItemState
from buffer.items.services import COUNTED, Counted, counted
from buffer.payloads.services.contents import NOT_STORED, PayloadLocation
from rolldeck.group_encoding import to_json, to_msgpack
from rolldeck.groups import DISTILLATION, IGNORED, JSON, GroupArrays, read
from rolldeck.ragged import Rows
from runs.lifecycle.models import OverlongSequences, Run
from runs.lifecycle.rules import PolicyVersion, version_in_force


class Receipt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result for one group: queued, unless a field is set."""

    waiting_sequences: int | None = None
    """Sequences that wait for others, including its own; None if it does not wait."""
    dropped: DropReason | None = None


@dataclass(slots=True, kw_only=True)
class Arrival:
    """A group of a push with its state and location."""

    group: Group
    version: PolicyVersion
    receipt: Receipt
    item_id: int = 0
    state: ItemState = ItemState.QUEUED
    location: PayloadLocation = NOT_STORED
    is_truncated: bool = False
    """Whether its sequences were longer than the run's maximum."""
    origin: str = ""
    """Run and id of a restored group there; empty for a pushed one."""

    @property
    def counted(self) -> Counted:
        """Its contribution to the counts."""
        group = self.group
        return Counted(self.version.epoch, group.env_id, group.sequences, len(group.content))


class Plan:
    """Assigns states to the groups of a push, with the waiting groups by environment."""

    def __init__(self, run: Run) -> None:
        self._run_id = run.pk
        self._max_staleness = run.max_staleness
        self._drop_zero_variance = run.drop_zero_variance
        self._overlong = run.overlong_sequences
        self._longest = run.max_token_len
        self._epoch = run.epoch
        self._current = version_in_force(
            epoch=run.epoch, policy_step=run.policy_step, served_steps=run.served_steps
        )
        self._sizes: Mapping[int, int] = {}
        self._waiting: dict[int, WaitingGroups] = {}
        self._before: dict[int, Counted] = {}
        self._waiting_arrivals: dict[int, Arrival] = {}
        self.released: list[int] = []

    def classify(self, group: Group) -> Arrival:
        """Return a group as an arrival, dropped or still to be placed."""
        version = version_of(
            claimed_epoch=group.epoch,
            claimed_step=group.policy_step,
            current=self._current,
            epoch=self._epoch,
        )
        reason = drop_reason(
            version,
            version,
            current=self._current,
            epoch=self._epoch,
            max_staleness=self._max_staleness,
        )
        if reason is None and self._drop_zero_variance and group.zero_variance:
            reason = DropReason.ZERO_VARIANCE
        is_truncated = False
        if reason is None and self._is_overlong(group):
            shorter = self._shortened(group)
            is_truncated = shorter is not None
            group, reason = (group, DropReason.OVERLONG) if shorter is None else (shorter, None)
        return Arrival(
            group=group,
            version=version,
            receipt=Receipt(dropped=reason),
            is_truncated=is_truncated,
            state=ItemState.QUEUED if reason is None else ItemState.DROPPED,
        )

    def _is_overlong(self, group: Group) -> bool:
        is_longer = self._longest is not None and group.longest_tokens > self._longest
        return is_longer and self._overlong != OverlongSequences.KEEP

    def _shortened(self, group: Group) -> Group | None:
        """Return an overlong group for the queue, or None if it is dropped."""
        if self._overlong == OverlongSequences.DROP or self._longest is None:
            return None
        return truncated(group, longest=self._longest)

    def mute(self, arrivals: Iterable[Arrival], muted: Collection[int]) -> None:
        """Drop groups from muted environments, unless they were dropped for another reason."""
        if not muted:
            return
        for arrival in arrivals:
            if arrival.state is not ItemState.DROPPED and arrival.group.env_id in muted:
                arrival.state, arrival.receipt = (
                    ItemState.DROPPED,
                    Receipt(dropped=DropReason.MUTED),
                )

    def assign(self, arrivals: Iterable[Arrival], sizes: Mapping[int, int]) -> None:
        """Make groups wait that are smaller than their environment's group size.

        Args:
            arrivals: The groups, with their ids.
            sizes: Group sizes by environment.
        """
        self._sizes = sizes
        for arrival in arrivals:
            env_id = arrival.group.env_id
            if arrival.state is ItemState.DROPPED or env_id is None:
                continue
            if arrival.group.sequences < sizes[env_id]:
                self._reserve(arrival, env_id)
        self._release()

    def _reserve(self, arrival: Arrival, env_id: int) -> None:
        waiting = self._of(env_id)
        item_id = arrival.item_id
        arrival.state, self._waiting_arrivals[item_id] = ItemState.WAITING, arrival
        for done in waiting.add(item_id, arrival.group.sequences):
            if done in self._waiting_arrivals:
                self._waiting_arrivals.pop(done).state = ItemState.QUEUED
            else:
                self.released.append(done)
        arrival.receipt = Receipt(waiting_sequences=waiting.sequences)

    def _of(self, env_id: int) -> WaitingGroups:
        if env_id not in self._waiting:
            with connection.cursor() as cursor:
                # Two parts of a group that arrive concurrently must see each other.
                cursor.execute(
                    "SELECT pg_advisory_xact_lock(hashtext('rolldeck.waiting'), hashtext(%s))",
                    [f"{self._run_id}:{env_id}"],
                )
            rows = list(
                TrajectoryGroup.objects.filter(
                    run_id=self._run_id, env_id=env_id, state=ItemState.WAITING
                )
                .select_for_update()
                .order_by("id")
                .values_list("id", *COUNTED[ItemKind.GROUPS])
            )
            before = {item_id: counted(*columns) for item_id, *columns in rows}
            self._before |= before
            self._waiting[env_id] = WaitingGroups(
                group_size=self._sizes[env_id],
                waiting=[(item_id, item.sequences) for item_id, item in before.items()],
            )
        return self._waiting[env_id]

    def _release(self) -> None:
        """Queue the waiting groups that this push completes."""
        if self.released:
            TrajectoryGroup.objects.filter(pk__in=self.released, state=ItemState.WAITING).update(
                state=ItemState.QUEUED
            )

    def released_items(self) -> list[Counted]:
        """Return the contributions of the released groups to the counts."""
        return [self._before[item_id] for item_id in self.released]


def truncated(group: Group, *, longest: int) -> Group | None:
    """Return a group whose sequences have at most `longest` tokens.

    Every field with one value per token is cut; scores and messages stay. None if a sequence
    keeps no trained token although it had one, because trainers divide by their number.
    """
    arrays = read(group.content, group.codec)
    cut = _cut(arrays, longest)
    before, after = _trained(arrays.rows["masks"]), _trained(cut.rows["masks"])
    if (before & ~after).any():
        return None
    tokens = cut.rows["tokens"].lengths
    return msgspec.structs.replace(
        group,
        content=to_json(cut) if group.codec == JSON else to_msgpack(cut),
        tokens=int(tokens.sum()),
        longest_tokens=int(tokens.max(initial=0)),
        notes=[*group.notes, f"tokens: truncated to {longest:,}"],
    )


def _cut(arrays: GroupArrays, longest: int) -> GroupArrays:
    within = arrays.rows["tokens"].is_within(longest)
    return replace(
        arrays,
        rows={name: rows.head(longest) for name, rows in arrays.rows.items()},
        distillation={name: values[within] for name, values in arrays.distillation.items()},
        json={
            name: _cut_lists(text, longest) if name in DISTILLATION else text
            for name, text in arrays.json.items()
        },
    )


def _cut_lists(text: bytes, longest: int) -> bytes:
    """Return the JSON of lists per sequence, each cut; other values stay."""
    value: Any = msgspec.json.decode(text)
    if not isinstance(value, Sequence):
        return text
    return msgspec.json.encode([row[:longest] if isinstance(row, list) else row for row in value])


def _trained(masks: Rows) -> Any:
    """Return whether each sequence has a trained token, ``[S]`` bool."""
    row = np.repeat(np.arange(len(masks.lengths)), masks.lengths)
    trained = np.bincount(row[masks.values != IGNORED], minlength=len(masks.lengths))
    return trained > 0
