"""A crashed component waits longer each time, and finally stays down."""

from rollouts.fleet.process.loops import RestartBudget, RestartRule

RULE = RestartRule(most_crashes=4, window_seconds=60.0, first_seconds=1.0, most_seconds=3.0)


def test_each_crash_doubles_the_wait_up_to_the_cap() -> None:
    budget = RestartBudget(RULE)

    assert [budget.crashed(at) for at in (0.0, 1.0, 2.0)] == [1.0, 2.0, 3.0]


def test_a_crash_loop_is_broken() -> None:
    budget = RestartBudget(RULE)
    waits = [budget.crashed(at) for at in (0.0, 1.0, 2.0, 3.0)]

    assert waits[-1] is None


def test_crashes_outside_the_window_are_counted_only_in_total() -> None:
    budget = RestartBudget(RULE)
    waits = [budget.crashed(at) for at in (0.0, 100.0, 200.0, 300.0, 400.0)]

    assert waits == [1.0] * 5
    assert budget.total == 5
