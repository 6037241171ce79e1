"""Many calls become few rows, whose counts add up."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from runs.access.rules.call_digest import CLIENTS_KEPT, REFUSALS_KEPT, Call, RefusedPush, digest

CALL = Call(
    client="token:1",
    at=0.0,
    method="POST",
    path="/api/runs/alpha/groups",
    route="api/runs/<slug:run>/groups",
    status=200,
    duration_ms=1.0,
)


def test_successes_of_a_route_become_the_slowest_of_them() -> None:
    calls = [replace(CALL, at=float(n), duration_ms=float(n % 5)) for n in range(10)]

    (kept,) = digest(calls)
    assert (kept.stands_for, kept.duration_ms) == (10, 4.0)


def test_refusals_and_repetitions_stay_one_by_one() -> None:
    refused = [replace(CALL, status=422, content=b"{}") for _ in range(3)]
    repeated = [replace(CALL, replayed=True)]

    assert [call.stands_for for call in digest([*refused, *repeated, CALL])] == [1] * 5


def test_a_storm_of_refusals_ends_in_one_row_that_counts_the_rest() -> None:
    kept = digest([replace(CALL, status=400)] * (REFUSALS_KEPT + 7))

    assert len(kept) == REFUSALS_KEPT + 1
    assert max(call.stands_for for call in kept) == 7


def test_a_storm_of_refused_pushes_still_tells_environments_and_reasons_apart() -> None:
    refused = replace(CALL, status=422)
    math = RefusedPush(run_id=1, env_ids=(0,), reason="missing", said="tokens")
    pushes = [math, replace(math, env_ids=(1,)), replace(math, reason="over_quota")]
    calls = [replace(refused, refused_push=push) for push in pushes for _ in range(100)]

    counts = Counter[RefusedPush | None]()
    for call in digest(calls):
        counts[call.refused_push] += call.stands_for

    assert counts == dict.fromkeys(pushes, 100)


def test_strangers_do_not_fill_the_table() -> None:
    calls = [replace(CALL, client=f"address:{n}", status=401) for n in range(CLIENTS_KEPT + 50)]

    assert len(digest(calls)) == CLIENTS_KEPT


@given(
    st.lists(
        st.builds(
            Call,
            client=st.sampled_from(["token:1", "token:2"]),
            at=st.floats(0, 100),
            method=st.sampled_from(["GET", "POST"]),
            path=st.just("/x"),
            route=st.sampled_from(["a", "b"]),
            status=st.sampled_from([200, 204, 400, 503]),
            duration_ms=st.floats(0, 1000),
            replayed=st.booleans(),
        ),
        max_size=200,
    )
)
def test_what_rows_stand_for_adds_up(calls: list[Call]) -> None:
    def of_each(rows: list[Call]) -> Counter[tuple[str, int]]:
        found: Counter[tuple[str, int]] = Counter()
        for row in rows:
            found[row.client, row.status] += row.stands_for
        return found

    kept = digest(calls)
    assert of_each(kept) == of_each(calls)
    assert [call.at for call in kept] == sorted(call.at for call in kept)
