"""Check the history of a campaign against the rules of the buffer. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from rolldeck.chaos.history import Event, Mark

ALLOWED_5XX: Final = frozenset({503, 507})
RETRIED: Final = frozenset({429, 503, 507})
MOST_EXAMPLES: Final = 3


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule, with the groups, batches or calls that show it."""

    rule: str
    run: str
    text: str


@dataclass(slots=True)
class RunHistory:
    """The calls of one run, by kind."""

    name: str
    begun: set[Mark] = field(default_factory=set)
    accepted: set[Mark] = field(default_factory=set)
    maybe: set[Mark] = field(default_factory=set)
    """Groups of a push without a known outcome."""
    stored: list[Mark] = field(default_factory=list)
    """Groups that the follower acknowledged, in the order of acceptance."""
    leases: list[Event] = field(default_factory=list)
    batches: dict[str, list[Event]] = field(default_factory=dict)
    """The same leases by batch; batches of Atropos are named by their content."""
    acks: list[Event] = field(default_factory=list)
    ended: list[Event] = field(default_factory=list)
    """Every call that ended."""
    began_at: dict[tuple[int, int], float] = field(default_factory=dict)
    has_follower: bool = False
    reuse: int = 1
    """Most batches that may have the same group."""

    @property
    def received(self) -> set[Mark]:
        """Groups that trainers received."""
        return set(chain.from_iterable(lease.marks for lease in self.leases))


def check(
    events: Iterable[Event],
    ledgers: Mapping[str, Mapping[str, Any]],
    reuse: Mapping[str, int] | None = None,
) -> list[Violation]:
    """Return the broken rules of a history.

    Args:
        events: The history in the order of its times.
        ledgers: The ledger of each run after the workload, as ``GET …/ledger`` returns it; groups
            may remain queued.
        reuse: Most batches that may have the same item, for runs that replay.
    """
    runs = _by_run(events)
    found: list[Violation] = []
    for name, run in sorted(runs.items()):
        run.reuse = (reuse or {}).get(name, 1)
        for rule in RULES:
            found += [Violation(rule.__name__, name, text) for text in rule(run, ledgers.get(name))]
    return found


def _by_run(events: Iterable[Event]) -> dict[str, RunHistory]:
    runs: dict[str, RunHistory] = {}
    for event in events:
        if not event.run:
            continue
        run = runs.setdefault(event.run, RunHistory(event.run))
        if event.outcome == "begin":
            run.began_at[event.client, event.call] = event.at
            if event.op == "push":
                run.begun.update(event.marks)
            continue
        run.ended.append(event)
        if event.op == "push" and event.outcome == "ok":
            run.accepted.update(event.marks)
        elif event.op == "lease" and event.outcome == "ok" and event.spans:
            run.leases.append(event)
            run.batches.setdefault(event.batch or event.digest, []).append(event)
        elif event.op == "ack":
            run.acks.append(event)
        elif event.op == "follow" and event.outcome == "ok":
            run.has_follower = True
            run.stored += event.marks
    for run in runs.values():
        run.maybe = run.begun - run.accepted
        # A push whose attempts were all refused stored nothing.
        unsettled = [e for e in run.ended if e.op == "push" and e.outcome != "ok"]
        unknown = {mark for e in unsettled if e.outcome == "unknown" for mark in e.marks}
        run.maybe -= {mark for e in unsettled for mark in e.marks} - unknown
    return runs


Ledger = Mapping[str, Any] | None


def no_group_is_lost(run: RunHistory, _: Ledger) -> Iterator[str]:
    """Yield accepted groups that no follower received."""
    if run.has_follower:
        yield from _some("accepted, but not stored", run.accepted - set(run.stored))


def no_group_is_invented(run: RunHistory, _: Ledger) -> Iterator[str]:
    """Yield received groups that no push can have stored."""
    if not run.begun:
        return  # a fleet is the producer
    received = run.received | set(run.stored)
    yield from _some("received, but never pushed", received - run.begun)
    refused = (received & run.begun) - run.accepted - run.maybe
    yield from _some("received, although every push was refused", refused)


def no_group_is_stored_twice(run: RunHistory, _: Ledger) -> Iterator[str]:
    """Yield groups that a follower received at two positions."""
    twice = {mark for mark, count in Counter(run.stored).items() if count > 1}
    yield from _some("stored twice", twice)


def no_content_is_changed(run: RunHistory, _: Ledger) -> Iterator[str]:
    """Yield calls whose groups differ from those that were pushed."""
    for event in run.ended:
        if event.damaged:
            yield f"{event.op} {event.batch or event.call}: {event.damaged} groups are damaged"


def no_group_is_in_two_batches(run: RunHistory, _: Ledger) -> Iterator[str]:
    """Yield groups that trainers received in more batches than may reuse them, or twice in one."""
    count: Counter[Mark] = Counter()
    for leases in run.batches.values():
        whole = set(chain.from_iterable(lease.marks for lease in leases))
        count.update(whole)
        for lease in leases:
            if lease.groups > len(set(lease.marks)):
                twice = {mark for mark, times in Counter(lease.marks).items() if times > 1}
                yield from _some(f"twice in batch {lease.ordinal}", twice)
    more = {mark for mark, times in count.items() if times > run.reuse}
    yield from _some(f"in more than {run.reuse} batches", more)


def a_batch_has_one_content(run: RunHistory, _: Ledger) -> Iterator[str]:
    """Yield batches that were served with two contents, ordinals or to two shards the same."""
    contents: defaultdict[tuple[str, tuple[int, int]], set[tuple[str, int]]] = defaultdict(set)
    ordinals: defaultdict[int, set[str]] = defaultdict(set)
    for lease in run.leases:
        if lease.batch:
            contents[lease.batch, lease.shard].add((lease.digest, lease.ordinal))
            ordinals[lease.ordinal].add(lease.batch)
    for (batch, shard), seen in contents.items():
        if len(seen) > 1:
            yield f"batch {batch}, shard {shard[0]}: {len(seen)} contents"
    for ordinal, batches in ordinals.items():
        if len(batches) > 1:
            yield f"ordinal {ordinal} has {len(batches)} batches"
    for batch, leases in run.batches.items():
        parts = {lease.shard: set(lease.marks) for lease in leases}
        shared = Counter(chain.from_iterable(parts.values())) if len(parts) > 1 else Counter()
        two = {mark for mark, times in shared.items() if times > 1}
        yield from _some(f"in two shards of batch {batch}", two)


def an_unnamed_batch_is_repeated_only_at_once(run: RunHistory, _: Ledger) -> Iterator[str]:
    """Yield batches of an Atropos trainer that came again after a later one."""
    seen: set[str] = set()
    before = ""
    for lease in run.leases:
        if lease.batch:
            continue
        if lease.digest in seen and lease.digest != before:
            yield f"batch of {lease.spans[0]} came again after a later one"
        seen.add(lease.digest)
        before = lease.digest


def nothing_is_served_after_its_acknowledgement(run: RunHistory, _: Ledger) -> Iterator[str]:
    """Yield batches leased by a call that began after the acknowledgement was answered."""
    acknowledged: dict[str, float] = {}
    for ack in run.acks:
        if ack.outcome == "ok":
            acknowledged.setdefault(ack.batch, ack.at)
    for lease in run.leases:
        began = run.began_at.get((lease.client, lease.call), 0.0)
        if began > acknowledged.get(lease.batch, began):
            yield f"batch {lease.ordinal} was served again after its acknowledgement"


def an_old_fence_acknowledges_nothing(run: RunHistory, _: Ledger) -> Iterator[str]:
    """Yield acknowledgements that were accepted although a newer fence had been received."""
    for ack in run.acks:
        if ack.outcome != "ok":
            continue
        began = run.began_at.get((ack.client, ack.call), ack.at)
        newer = [
            lease.fence
            for lease in run.batches.get(ack.batch, ())
            if lease.at < began and lease.fence > ack.fence
        ]
        if newer and not _was_acknowledged_before(run, ack, began):
            yield f"batch {ack.ordinal}: fence {ack.fence} was accepted after fence {max(newer)}"


def _was_acknowledged_before(run: RunHistory, ack: Event, began: float) -> bool:
    """Return whether this is the repetition of an earlier acknowledgement."""
    return any(
        other is not ack
        and other.batch == ack.batch
        and other.fence == ack.fence
        and other.outcome != "refused"
        and run.began_at.get((other.client, other.call), other.at) < began
        for other in run.acks
    )


def fences_rise(run: RunHistory, _: Ledger) -> Iterator[str]:
    """Yield leases of rank 0 whose fence is not higher than that of the lease before.

    The other ranks get the fence of the first.
    """
    highest: dict[str, int] = {}
    for lease in run.leases:
        if not lease.batch or lease.shard[0] > 0:
            continue
        before = highest.get(lease.batch)
        if before is not None and lease.fence <= before:
            yield f"batch {lease.ordinal}: fence {lease.fence} after {before}"
        highest[lease.batch] = max(lease.fence, before or 0)


def ordinals_have_no_gaps(run: RunHistory, _: Ledger) -> Iterator[str]:
    """Yield missing ordinals among the acknowledged batches."""
    ordinals = {lease.ordinal for lease in run.leases if lease.batch}
    if ordinals:
        missing = set(range(1, max(ordinals) + 1)) - ordinals
        if missing:
            yield f"ordinals {sorted(missing)[:MOST_EXAMPLES]} were never served"


def groups_keep_their_order(run: RunHistory, _: Ledger) -> Iterator[str]:
    """Yield groups of one producer that were stored or served before an earlier one.

    A producer with keys pushes a group after the one before is resolved. Groups of pushes without
    keys and without a known outcome may come later.
    """
    yield from _disordered("stored", run.stored, run.accepted)
    batches = {(lease.ordinal, lease.shard[0]): lease for lease in run.leases if lease.batch}
    if run.reuse == 1 and all(shard == 0 for _, shard in batches):
        served = (mark for key in sorted(batches) for mark in batches[key].marks)
        yield from _disordered("served", served, run.accepted)


def _disordered(what: str, marks: Iterable[Mark], certain: set[Mark]) -> Iterator[str]:
    newest: dict[int, int] = {}
    for client, number in marks:
        if (client, number) not in certain:
            continue
        if number < newest.get(client, -1):
            yield f"group {(client, number)} was {what} after {(client, newest[client])}"
        newest[client] = max(number, newest.get(client, -1))


def every_stored_group_is_served_or_queued(run: RunHistory, ledger: Ledger) -> Iterator[str]:
    """Yield a difference between the groups stored, served and queued."""
    if not run.has_follower or ledger is None:
        return
    missing = set(run.stored) - run.received
    groups = items_of(ledger)
    rest = groups["queued"] + groups["waiting"] + groups["leased"] + groups["quarantined"]
    rest += sum(groups["dropped"].values())
    if len(missing) > rest:
        yield from _some(f"neither served nor among the {rest} that remain", missing)


def the_ledger_counts_every_group(run: RunHistory, ledger: Ledger) -> Iterator[str]:
    """Yield a ledger that does not balance, or counts other groups than were stored."""
    if ledger is None:
        yield "no ledger"
        return
    groups = items_of(ledger)
    if not groups["balanced"] or ledger["problem"]:
        yield f"the ledger does not balance: {ledger['problem'] or groups}"
    if run.has_follower and groups["accepted"] != len(run.stored):
        yield f"the ledger has {groups['accepted']} groups, the follower {len(run.stored)}"
    settled: Counter[Mark] = Counter()
    for batch in {ack.batch for ack in run.acks if ack.outcome == "ok"}:
        leases = run.batches.get(batch, ())
        settled.update(set(chain.from_iterable(lease.marks for lease in leases)))
    served = sum(times >= run.reuse for times in settled.values())
    if groups["served"] < served:
        yield f"the ledger has {groups['served']} served groups of {served}"


def items_of(ledger: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a ledger that counts the items of its run: groups or fragments."""
    counted: Mapping[str, Any] = ledger.get("fragments") or {}
    return counted if counted.get("accepted") else ledger["groups"]


def a_drained_run_is_completed_and_empty(run: RunHistory, ledger: Ledger) -> Iterator[str]:
    """Yield drained runs that are not completed, or have other groups than were pushed."""
    for event in run.ended:
        if event.op != "drained":
            continue
        if event.outcome != "ok":
            yield f"it is {event.text or 'unknown'} instead of completed"
        elif ledger is not None:
            groups = ledger["groups"]
            rest = groups["queued"] + groups["waiting"] + groups["leased"]
            missing = len(run.accepted - run.received)
            if rest or missing > sum(groups["dropped"].values()):
                yield f"{rest} groups are open, {missing} accepted ones were not served: {groups}"
            if not len(run.accepted) <= groups["accepted"] <= len(run.accepted | run.maybe):
                yield f"the ledger has {groups['accepted']} of {len(run.accepted)} groups"


def statuses_are_documented(run: RunHistory, _: Ledger) -> Iterator[str]:
    """Yield answers with 5xx other than 503 and 507, or without ``Retry-After``."""
    seen: Counter[str] = Counter()
    for event in run.ended:
        if event.status >= 500 and event.status not in ALLOWED_5XX:
            seen[f"{event.op} was answered {event.status}: {event.text}"] += 1
        elif event.status in RETRIED and not event.retry_after:
            seen[f"{event.op} was answered {event.status} without Retry-After"] += 1
    yield from (f"{text} ({count} times)" for text, count in seen.most_common(MOST_EXAMPLES))


def versions_rise_unchanged(run: RunHistory, _: Ledger) -> Iterator[str]:
    """Yield versions of weights that went back, or whose content is another one."""
    published = {event.version: event.digest for event in run.ended if event.op == "publish"}
    newest = -1
    for event in run.ended:
        if event.op == "publish" and event.outcome == "ok":
            newest = max(newest, event.version)
        if event.op != "weights" or event.outcome != "ok":
            continue
        if event.version < newest:
            yield f"version {event.version} was current after {newest}"
        if published.get(event.version, event.digest) != event.digest:
            yield f"version {event.version} has another content"
        newest = max(newest, event.version)


RULES: Final = (
    no_group_is_lost,
    no_group_is_invented,
    no_group_is_stored_twice,
    no_content_is_changed,
    no_group_is_in_two_batches,
    a_batch_has_one_content,
    an_unnamed_batch_is_repeated_only_at_once,
    nothing_is_served_after_its_acknowledgement,
    an_old_fence_acknowledges_nothing,
    fences_rise,
    ordinals_have_no_gaps,
    groups_keep_their_order,
    every_stored_group_is_served_or_queued,
    the_ledger_counts_every_group,
    a_drained_run_is_completed_and_empty,
    statuses_are_documented,
    versions_rise_unchanged,
)


def _some(what: str, marks: Iterable[Mark]) -> Iterator[str]:
    listed: Sequence[Mark] = sorted(marks)
    if listed:
        yield f"{len(listed)} groups {what}: {', '.join(map(str, listed[:MOST_EXAMPLES]))}"
