"""Arriving items with their states: queued, dropped, or waiting for others."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np
from django.db import connection
from msgspec import Struct

from buffer.ingest.rules.arrivals import WaitingGroups, drop_reason, version_of
from buffer.ingest.schemas.groups import Group
from buffer.items.models import TrajectoryGroup
from buffer.items.rules.states import DropReason, ItemKind, ItemState
from buffer.items.services import COUNTED, Counted, counted
from buffer.payloads.services.contents import NOT_STORED, PayloadLocation
from rolldeck.group_encoding import to_json, to_msgpack
from rolldeck.groups import DISTILLATION, IGNORED, JSON, MSGPACK, read
from rolldeck.ragged import Rows
from rolldeck.wire import Fragment
from runs.lifecycle.models import OverlongSequences, Run, UnscoredSequences
from runs.lifecycle.rules import PolicyVersion, version_in_force
from web.sql import statements_of

SQL: Final = statements_of("buffer")

# The bytes of an item, or a view of the push that contains them.
Encoded = bytes | memoryview


class Receipt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result for one group: queued, unless a field is set."""

    waiting_sequences: int | None = None
    """Sequences that wait for others, including its own; None if it does not wait."""
    dropped: DropReason | None = None


@dataclass(slots=True, kw_only=True)
class Arrival:
    """An item of a push with its state and location.

    Attributes:
        item: The group or fragment.
        content: Its encoded bytes; of a fragment also a view of the push that contains them.
        codec: Codec of the bytes.
        counted: Its contribution to the counts.
        state: Its state.
        dropped: Reason of its drop, if it was dropped on arrival.
        waiting_sequences: Sequences that wait for others, with those of a waiting group.
        policy_step: Policy version of a group.
        item_id: Its id; None for a fragment that is already stored.
        location: Location of its bytes.
        is_truncated: Whether the sequences of a group were longer than the run's maximum.
        origin: Run and id of a restored item there; empty for a pushed one.
    """

    item: Any
    content: Encoded
    codec: str
    counted: Counted
    state: ItemState = ItemState.QUEUED
    dropped: DropReason | None = None
    waiting_sequences: int | None = None
    policy_step: int | None = None
    item_id: int | None = None
    location: PayloadLocation = NOT_STORED
    is_truncated: bool = False
    origin: str = ""

    @classmethod
    def of_group(cls, group: Group, version: PolicyVersion, **fields: Any) -> "Arrival":
        return cls(
            item=group,
            content=group.content,
            codec=group.codec,
            counted=Counted(version.epoch, group.env_id, group.sequences, len(group.content)),
            policy_step=version.step,
            **fields,
        )

    @classmethod
    def of_fragment(cls, fragment: Fragment, content: Encoded, **fields: Any) -> "Arrival":
        environment = fragment.environment
        return cls(
            item=fragment,
            content=content,
            codec=MSGPACK,
            counted=Counted(fragment.epoch, None, 1, len(content), environment),
            **fields,
        )

    @property
    def is_kept(self) -> bool:
        """Whether its bytes are stored."""
        return self.state is not ItemState.DROPPED

    @property
    def receipt(self) -> Receipt:
        """The result of a group."""
        return Receipt(waiting_sequences=self.waiting_sequences, dropped=self.dropped)

    def drop(self, reason: DropReason) -> None:
        self.state, self.dropped = ItemState.DROPPED, reason


def fragment_arrival(run: Run, fragment: Fragment, content: Encoded, state: ItemState) -> Arrival:
    """Return a fragment in `state`, or dropped because it cannot train the run's policy."""
    arrival = Arrival.of_fragment(fragment, content, state=state)
    reason = drop_reason(
        PolicyVersion(fragment.epoch, fragment.version_min),
        PolicyVersion(fragment.epoch, fragment.version_max),
        current=PolicyVersion(run.epoch, run.policy_step),
        epoch=run.epoch,
        max_staleness=run.max_staleness,
    )
    if reason is not None:
        arrival.drop(reason)
    return arrival


def is_partial(group: Group, group_size: int) -> bool:
    """Return whether a group was pushed smaller than the groups of its environment."""
    return group.sequences + (group.short.unscored if group.short else 0) < group_size


class Plan:
    """Assigns states to the groups of a push, with the waiting groups by environment."""

    def __init__(self, run: Run) -> None:
        self._run = run
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
            epoch=self._run.epoch,
        )
        reason = drop_reason(
            version,
            version,
            current=self._current,
            epoch=self._run.epoch,
            max_staleness=self._run.max_staleness,
        )
        if reason is None and self._run.drop_zero_variance and group.zero_variance:
            reason = DropReason.ZERO_VARIANCE
        if reason is None and group.short and self._is_too_short(group):
            reason = DropReason.SHORT_GROUP
        is_truncated = False
        overlong, longest = self._run.overlong_sequences, self._run.max_token_len
        is_longer = longest is not None and group.longest_tokens > longest
        if reason is None and is_longer and overlong != OverlongSequences.KEEP:
            drops = overlong == OverlongSequences.DROP
            shorter = None if drops else truncated(group, longest=longest or 0)
            is_truncated = shorter is not None
            group, reason = (group, DropReason.OVERLONG) if shorter is None else (shorter, None)
        arrival = Arrival.of_group(group, version, is_truncated=is_truncated)
        if reason is not None:
            arrival.drop(reason)
        return arrival

    def _is_too_short(self, group: Group) -> bool:
        """Return whether the run drops a group without its unscored sequences."""
        drops = self._run.unscored_sequences == UnscoredSequences.DROP
        return drops or group.sequences < self._run.least_group_size

    def mute(self, arrivals: Iterable[Arrival], muted: Collection[int]) -> None:
        """Drop groups from muted environments, unless they were dropped for another reason."""
        for arrival in arrivals:
            if arrival.is_kept and arrival.item.env_id in muted:
                arrival.drop(DropReason.MUTED)

    def assign(self, arrivals: Iterable[Arrival], sizes: Mapping[int, int]) -> None:
        """Make groups wait that are smaller than their environment's group size.

        Args:
            arrivals: The groups, with their ids.
            sizes: Group sizes by environment.
        """
        self._sizes = sizes
        for arrival in arrivals:
            env_id = arrival.item.env_id
            if arrival.is_kept and env_id is not None and is_partial(arrival.item, sizes[env_id]):
                self._reserve(arrival, env_id)
        if self.released:
            TrajectoryGroup.objects.filter(pk__in=self.released, state=ItemState.WAITING).update(
                state=ItemState.QUEUED
            )

    def _reserve(self, arrival: Arrival, env_id: int) -> None:
        if env_id not in self._waiting:
            with connection.cursor() as cursor:
                cursor.execute(SQL["lock_waiting"], [f"{self._run.pk}:{env_id}"])
            rows = list(
                TrajectoryGroup.objects.filter(
                    run_id=self._run.pk, env_id=env_id, state=ItemState.WAITING
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
        waiting = self._waiting[env_id]
        item_id = arrival.item_id or 0
        arrival.state, self._waiting_arrivals[item_id] = ItemState.WAITING, arrival
        for done in waiting.add(item_id, arrival.item.sequences):
            if done in self._waiting_arrivals:
                self._waiting_arrivals.pop(done).state = ItemState.QUEUED
            else:
                self.released.append(done)
        arrival.waiting_sequences = waiting.sequences

    def released_items(self) -> list[Counted]:
        return [self._before[item_id] for item_id in self.released]


def truncated(group: Group, *, longest: int) -> Group | None:
    """Return a group whose sequences have at most `longest` tokens.

    Every field with one value per token is cut; scores and messages stay. None if a sequence
    keeps no trained token although it had one, because trainers divide by their number.
    """
    arrays = read(group.content, group.codec)
    within = arrays.rows["tokens"].is_within(longest)
    cut = replace(
        arrays,
        rows={name: rows.head(longest) for name, rows in arrays.rows.items()},
        distillation={name: values[within] for name, values in arrays.distillation.items()},
        json={
            name: _cut_lists(text, longest) if name in DISTILLATION else text
            for name, text in arrays.json.items()
        },
    )
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
