"""The checker of campaigns finds every kind of fault in a history, and none in a good one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rolldeck.chaos.checker import check
from rolldeck.chaos.content import fragment_of, mark_of_fragment
from rolldeck.chaos.history import Event, History, HistoryReader, Mark, Outcome, spans_of
from rolldeck.chaos.results import Injected, result_of

RUN = "chaos"
GROUPS = 24
GROUPS_OF_A_BATCH = 4


@dataclass
class Story:
    """A history, and the ledger after it."""

    events: list[Event] = field(default_factory=list)
    ledger: dict[str, Any] = field(default_factory=dict)
    at: float = 0.0

    def call(self, client: int, op: str, outcome: Outcome = "ok", **fields: Any) -> Event:
        """Add a call that begins and ends."""
        self.at += 1.0
        number = len(self.events)
        fields = stored(fields)
        begun = {name: value for name, value in fields.items() if name in {"spans", "is_keyed"}}
        common: dict[str, Any] = {"client": client, "op": op, "call": number, "run": RUN}
        self.events.append(Event(at=self.at, outcome="begin", **common, **begun))
        self.at += 1.0
        event = Event(at=self.at, outcome=outcome, **common, **fields)
        self.events.append(event)
        return event

    def index(self, op: str, nth: int, outcome: str = "ok") -> int:
        """Return the position of the nth end of a call."""
        return [
            at
            for at, event in enumerate(self.events)
            if event.op == op and event.outcome == outcome and (op != "lease" or event.spans)
        ][nth]

    def change(self, op: str, nth: int, **fields: Any) -> None:
        """Replace fields of the nth end of a call."""
        at = self.index(op, nth)
        self.events[at] = msgspec.structs.replace(self.events[at], **stored(fields))

    def marks(self, op: str, nth: int) -> tuple[Mark, ...]:
        """Return the groups of the nth end of a call."""
        return tuple(self.events[self.index(op, nth)].marks)


def stored(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields of an event with its groups as spans."""
    rest = {name: value for name, value in fields.items() if name != "marks"}
    return rest | ({"spans": spans_of(fields["marks"])} if "marks" in fields else {})


def good() -> Story:
    """Return the history of three producers, two trainers and a follower without a fault."""
    story = Story()
    accepted: list[Mark] = []
    for number in range(GROUPS // 3):
        for client in (1, 2, 3):
            mark = (client, number)
            if number == 2 and client == 1:
                story.call(client, "push", "unknown", marks=(mark,), text="TimeoutError")
                story.call(client, "push", "refused", marks=(mark,), status=503, retry_after=True)
            story.call(client, "push", marks=(mark,), status=200, is_keyed=client < 3)
            accepted.append(mark)
    story.call(3, "push", "unknown", marks=((3, 99),), is_keyed=False)
    story.call(3, "push", "refused", marks=((3, 98),), is_keyed=False, status=503, retry_after=True)
    story.call(5, "follow", marks=tuple(accepted[:10]))
    story.call(5, "follow", marks=tuple(accepted[10:]))
    served = accepted[: GROUPS - GROUPS_OF_A_BATCH]
    for ordinal in range(1, len(served) // GROUPS_OF_A_BATCH + 1):
        marks = tuple(served[(ordinal - 1) * GROUPS_OF_A_BATCH : ordinal * GROUPS_OF_A_BATCH])
        lease: dict[str, Any] = {
            "batch": f"b{ordinal}",
            "ordinal": ordinal,
            "marks": marks,
            "digest": f"d{ordinal}",
        }
        story.call(4, "lease", fence=1, **lease)
        if ordinal == 2:
            story.call(4, "lease", fence=2, **lease)
            story.call(4, "ack", "refused", batch="b2", ordinal=2, fence=1, status=409)
        fence = 2 if ordinal == 2 else 1
        if ordinal == 3:
            story.call(4, "ack", "unknown", batch="b3", ordinal=3, fence=1)
        story.call(4, "ack", batch=f"b{ordinal}", ordinal=ordinal, fence=fence)
        story.call(4, "publish", version=ordinal, digest=f"w{ordinal}")
        story.call(4, "weights", version=ordinal, digest=f"w{ordinal}")
    groups = {
        "accepted": GROUPS,
        "queued": GROUPS_OF_A_BATCH,
        "waiting": 0,
        "leased": 0,
        "served": len(served),
        "quarantined": 0,
        "dropped": {},
        "balanced": True,
    }
    story.ledger = {"groups": groups, "problem": ""}
    return story


def test_a_history_without_a_fault_breaks_no_rule() -> None:
    story = good()

    assert check(story.events, {RUN: story.ledger}) == []


def lose(story: Story) -> None:
    story.change("follow", 1, marks=story.marks("follow", 1)[1:])


def invent(story: Story) -> None:
    story.call(5, "follow", marks=((7, 7),))


def store_refused(story: Story) -> None:
    story.call(5, "follow", marks=((3, 98),))


def store_twice(story: Story) -> None:
    story.call(5, "follow", marks=((1, 0),))


def store_unkeyed_twice(story: Story) -> None:
    story.call(5, "follow", marks=((3, 0),))


def swap_stored(story: Story) -> None:
    marks = story.marks("follow", 0)
    story.change("follow", 0, marks=(marks[3], *marks[1:3], marks[0], *marks[4:]))


def swap_batches(story: Story) -> None:
    first, last = story.marks("lease", 0), story.marks("lease", -1)
    story.change("lease", 0, marks=last)
    story.change("lease", -1, marks=first)


def serve_twice(story: Story) -> None:
    marks = story.marks("lease", 0)
    story.call(4, "lease", batch="b6", ordinal=6, fence=1, marks=marks, digest="d6")


def repeat_in_a_batch(story: Story) -> None:
    marks = story.marks("lease", 0)
    story.change("lease", 0, marks=(marks[0], *marks[:3]))


def serve_after_ack(story: Story) -> None:
    marks = story.marks("lease", 0)
    story.call(4, "lease", batch="b1", ordinal=1, fence=2, marks=marks, digest="d1")


def accept_an_old_fence(story: Story) -> None:
    at = story.index("ack", 0, "refused")
    story.events[at] = msgspec.structs.replace(story.events[at], outcome="ok", status=200)


def lower_a_fence(story: Story) -> None:
    story.change("lease", 2, fence=0)


def skip_an_ordinal(story: Story) -> None:
    story.events = [event for event in story.events if event.ordinal != 4]


def share_an_ordinal(story: Story) -> None:
    story.change("lease", 5, ordinal=4)


def change_a_batch(story: Story) -> None:
    story.change("lease", 2, digest="other")


def overlap_shards(story: Story) -> None:
    shared: dict[str, Any] = {"batch": "b6", "ordinal": 6, "fence": 1, "digest": "d6"}
    story.call(6, "push", marks=((6, 0), (6, 1)), status=200)
    story.call(5, "follow", marks=((6, 0), (6, 1)))
    story.call(4, "lease", marks=((6, 0), (6, 1)), shard=(0, 2), **shared)
    story.call(4, "lease", marks=((6, 1),), shard=(1, 2), **(shared | {"digest": "d7"}))


def return_to_an_older_batch(story: Story) -> None:
    for digest in ("u1", "u2", "u1"):
        story.call(9, "lease", marks=((1, 0),), digest=digest)


def forget_served(story: Story) -> None:
    story.events = [event for event in story.events if event.ordinal != 5]


def ledger(**fields: Any) -> Callable[[Story], None]:
    def change(story: Story) -> None:
        story.ledger["groups"] |= fields

    return change


def answer(op: str, **fields: Any) -> Callable[[Story], None]:
    def change(story: Story) -> None:
        story.call(1, op, "unknown", **fields)

    return change


def change(op: str, nth: int, **fields: Any) -> Callable[[Story], None]:
    return lambda story: story.change(op, nth, **fields)


def audit_fails(story: Story) -> None:
    story.ledger["problem"] = "7 groups are missing"


FAULTS: list[tuple[str, Callable[[Story], None], str]] = [
    ("an accepted group is lost", lose, "no_group_is_lost"),
    ("a group is invented", invent, "no_group_is_invented"),
    ("a refused group is stored", store_refused, "no_group_is_invented"),
    ("a group is stored twice", store_twice, "no_group_is_stored_twice"),
    ("a group without a key is stored twice", store_unkeyed_twice, "no_group_is_stored_twice"),
    ("bytes of a batch change", change("lease", 1, damaged=1), "no_content_is_changed"),
    ("bytes of a follower change", change("follow", 0, damaged=2), "no_content_is_changed"),
    ("a group is in two batches", serve_twice, "no_group_is_in_two_batches"),
    ("a group is twice in a batch", repeat_in_a_batch, "no_group_is_in_two_batches"),
    ("a batch has two contents", change_a_batch, "a_batch_has_one_content"),
    ("an ordinal has two batches", share_an_ordinal, "a_batch_has_one_content"),
    ("two shards share a group", overlap_shards, "a_batch_has_one_content"),
    (
        "an older batch comes again",
        return_to_an_older_batch,
        "an_unnamed_batch_is_repeated_only_at_once",
    ),
    (
        "a batch comes after its acknowledgement",
        serve_after_ack,
        "nothing_is_served_after_its_acknowledgement",
    ),
    ("an old fence is accepted", accept_an_old_fence, "an_old_fence_acknowledges_nothing"),
    ("a fence falls", lower_a_fence, "fences_rise"),
    ("an ordinal is skipped", skip_an_ordinal, "ordinals_have_no_gaps"),
    ("two stored groups are swapped", swap_stored, "groups_keep_their_order"),
    ("two batches are swapped", swap_batches, "groups_keep_their_order"),
    ("served groups vanish", forget_served, "every_stored_group_is_served_or_queued"),
    ("the ledger does not balance", ledger(balanced=False), "the_ledger_counts_every_group"),
    ("the ledger counts too many", ledger(accepted=25), "the_ledger_counts_every_group"),
    ("the ledger counts too few as served", ledger(served=4), "the_ledger_counts_every_group"),
    ("the audit has a problem", audit_fails, "the_ledger_counts_every_group"),
    ("a server error", answer("push", status=500), "statuses_are_documented"),
    ("a gateway error", answer("lease", status=502), "statuses_are_documented"),
    ("503 without Retry-After", answer("push", status=503), "statuses_are_documented"),
    ("507 without Retry-After", answer("push", status=507), "statuses_are_documented"),
    (
        "a version goes back",
        change("weights", 4, version=2, digest="w2"),
        "versions_rise_unchanged",
    ),
    ("weights change", change("weights", 1, digest="other"), "versions_rise_unchanged"),
]


@pytest.mark.parametrize(("name", "fault", "rule"), FAULTS, ids=[name for name, *_ in FAULTS])
def test_a_fault_in_a_history_is_found(
    name: str, fault: Callable[[Story], None], rule: str
) -> None:
    story = good()
    fault(story)

    found = check(story.events, {RUN: story.ledger})

    assert rule in {violation.rule for violation in found}, (name, found)


def drained(status: str = "completed", served: int = 4, **counts: Any) -> list[str]:
    """Return the rules broken by a run of five groups that was drained."""
    story = Story()
    marks = tuple((1, number) for number in range(5))
    story.call(1, "push", marks=marks, status=200)
    story.call(1, "lease", batch="b1", ordinal=1, fence=1, marks=marks[:served], digest="d1")
    story.call(1, "ack", batch="b1", ordinal=1, fence=1)
    story.call(1, "drained", "ok" if status == "completed" else "unknown", text=status)
    groups = {"accepted": 5, "served": served, "dropped": {"run_ended": 1}, "balanced": True}
    groups |= {"queued": 0, "waiting": 0, "leased": 0, "quarantined": 0, **counts}
    ledger = {"groups": groups, "problem": ""}
    return [each.rule for each in check(story.events, {RUN: ledger})]


def test_a_drained_run_serves_or_drops_every_group() -> None:
    rule = ["a_drained_run_is_completed_and_empty"]

    assert drained() == []
    assert drained("draining") == rule
    assert drained(queued=1) == rule
    assert drained(served=3) == rule
    assert drained(accepted=6, dropped={"run_ended": 2}) == rule


def test_fragments_of_a_fleet_need_no_push() -> None:
    story = Story()
    story.call(1, "follow", marks=((77, 0), (77, 1)))
    story.call(2, "lease", batch="b1", ordinal=1, fence=1, marks=((77, 0),), digest="d1")
    counts = {"accepted": 2, "queued": 1, "waiting": 0, "leased": 1, "served": 0}
    fragments = {**counts, "quarantined": 0, "dropped": {}, "balanced": True}
    ledger = {"groups": {}, "fragments": fragments, "problem": ""}

    assert check(story.events, {RUN: ledger}) == []

    story.call(1, "follow", marks=((77, 1),))
    found = {violation.rule for violation in check(story.events, {RUN: ledger})}
    assert found == {"no_group_is_stored_twice", "the_ledger_counts_every_group"}


def test_a_received_fragment_is_compared_with_its_slot_and_number() -> None:
    content = fragment_of(3, 7)

    assert mark_of_fragment(content) == ((3, 7), True)
    assert mark_of_fragment(content[:-1] + b"?") == ((3, 7), False)
    assert mark_of_fragment(b"?") == (None, False)


def test_a_replayed_group_may_be_in_as_many_batches_as_its_run_allows() -> None:
    story = good()
    serve_twice(story)
    story.call(5, "ack", batch="b6", ordinal=6, fence=1)

    def rules(reuse: int) -> set[str]:
        return {each.rule for each in check(story.events, {RUN: story.ledger}, {RUN: reuse})}

    assert rules(1) == {"no_group_is_in_two_batches", "groups_keep_their_order"}
    assert rules(2) == set()


def test_a_history_keeps_the_order_of_groups_in_few_spans(tmp_path: Path) -> None:
    marks = ((1, 7), (1, 8), (2, 3), (1, 9), (1, 8), (-1, -1))
    history = History(tmp_path, 1)

    call = history.begin("push", run=RUN, marks=marks)
    history.end("push", call, "ok", run=RUN, marks=marks)

    begun, ended = HistoryReader(tmp_path).read()
    assert (begun.outcome, ended.outcome) == ("begin", "ok")
    assert tuple(ended.marks) == marks
    assert (len(ended.spans), ended.groups) == (5, len(marks))


def test_a_result_counts_lost_and_doubled_groups() -> None:
    story = good()
    ledgers = {RUN: story.ledger | {"fragments": {"accepted": 0}}}
    whole = result_of(story.events, ledgers, [], seed=1, seconds=1)
    marks = story.marks("follow", 0)
    story.call(9, "follow", marks=marks[:1])
    story.change("follow", 0, marks=marks[:-1])
    broken = result_of(story.events, ledgers, [], seed=1, seconds=1)

    assert (whole.accepted, whole.lost, whole.doubled) == (GROUPS, 0, 0)
    assert (broken.lost, broken.doubled) == (1, 1)


@pytest.mark.parametrize(
    ("pushes", "fleet", "failure", "texts"),
    [
        (9.9, 59.9, "", []),
        (9.9, None, "", []),
        (10.1, None, "", ["kill the node: 10.1 s of 10 s"]),
        (0.2, 60.1, "", ["kill the node: fleet, 60.1 s of 60 s"]),
        (0.2, None, "OSError: no node", ["kill the node: OSError: no node"]),
    ],
)
def test_a_late_recovery_and_a_failed_injection_are_violations(
    pushes: float, fleet: float | None, failure: str, texts: list[str]
) -> None:
    story = good()
    ledgers = {RUN: story.ledger | {"fragments": {"accepted": 0}}}
    fault = Injected("kill the node", 1.0, 10.0, pushes, fleet, failure)

    found = result_of(story.events, ledgers, [fault], seed=1, seconds=1)

    assert [each.text for each in found.violations] == texts
