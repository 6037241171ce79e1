"""Clients of campaigns record each attempt, repeat what is unresolved, and stop at the end."""

from pathlib import Path

import msgspec
import pytest

from rolldeck import wire
from rolldeck.chaos.content import fragment_of
from rolldeck.chaos.history import Event, History, HistoryReader
from rolldeck.chaos.workload import ClientPlan, Pusher, Role, replay
from rolldeck.wire import BatchAnswer, BatchHead
from tests.unit.client.failing_server import Planned, Seen, Server, in_turn, serving

BUSY = Planned(status=503, headers={"Retry-After": "1"}, body=b'{"detail": "busy"}')


def plan_of(server: Server, folder: Path, role: Role, *, atropos: str = "/atropos/r") -> ClientPlan:
    return ClientPlan(
        client=3,
        role=role,
        url=server.url,
        run="r",
        token="t",
        seed=1,
        interval_seconds=1,
        folder=str(folder),
        batch_size=2,
        atropos=atropos,
    )


@pytest.mark.parametrize("role", ["json", "list", "binary", "fragments", "keyless"])
def test_a_push_is_repeated_until_it_is_resolved(
    role: Role, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rolldeck.chaos.workload.RETRY_SECONDS", 0)
    with serving(in_turn(BUSY, Planned(status=0), Planned())) as server:
        pusher = Pusher(plan_of(server, tmp_path, role), History(tmp_path, 3))
        pusher.push(1)

    events = HistoryReader(tmp_path).read()
    outcomes = [event.outcome for event in events if event.outcome != "begin"]
    assert outcomes == (["refused"] if role == "keyless" else ["refused", "unknown", "ok"])
    assert {tuple(event.marks) for event in events} == {((3, 0),)}
    assert len({seen.body for seen in server.seen}) == 1


def test_fragments_are_pushed_as_a_fleet_pushes_them(tmp_path: Path) -> None:
    with serving(in_turn(Planned())) as server:
        Pusher(plan_of(server, tmp_path, "fragments"), History(tmp_path, 3)).push(2)

    (seen,) = server.seen
    push = msgspec.msgpack.decode(seen.body, type=wire.FragmentPush)
    assert seen.path == "/api/v1/runs/r/fragments"
    assert push.fragments == [fragment_of(3, 0), fragment_of(3, 1)]


def test_a_server_of_atropos_has_no_keys_and_no_runs(tmp_path: Path) -> None:
    with serving(in_turn(Planned())) as server:
        Pusher(plan_of(server, tmp_path, "json", atropos=""), History(tmp_path, 3)).push(1)

    (seen,) = server.seen
    assert seen.path == "/scored_data"
    assert "Idempotency-Key" not in seen.headers


def test_a_sampled_batch_is_acknowledged_with_the_next_request(tmp_path: Path) -> None:
    def answer(request: Seen) -> Planned:
        if request.path.endswith("/trainers"):
            return Planned(body=b'{"uuid": 1, "epoch": 1, "policy_step": 0}')
        if request.path.endswith("/priorities"):
            return Planned(body=b'{"updated": 2}')
        if b'"ack"' in request.body:
            (tmp_path / "end").touch()
            return Planned(status=204)
        head = BatchHead(
            id="b1",
            ordinal=1,
            fence=1,
            kind="fragments",
            count=2,
            lease_seconds=6,
            epoch=1,
            policy_step=0,
            item_ids=[7, 8],
        )
        items = [fragment_of(3, 0), fragment_of(3, 1)]
        return Planned(body=wire.encode(BatchAnswer(batch=head, items=items)))

    with serving(answer) as server:
        replay(plan_of(server, tmp_path, "replay"), History(tmp_path, 3))

    def ended(op: str) -> list[Event]:
        events = HistoryReader(tmp_path).read()
        return [event for event in events if event.op == op and event.outcome == "ok"]

    assert [tuple(event.marks) for event in ended("lease")] == [((3, 0), (3, 1)), ()]
    assert [event.damaged for event in ended("lease")] == [0, 0]
    assert [(event.batch, event.fence) for event in ended("ack")] == [("b1", 1)]
