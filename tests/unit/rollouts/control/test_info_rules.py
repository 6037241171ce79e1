"""Sums of `info` over a run, and the metrics between two measurements."""

from rolldeck.fleet_wire import InfoDrops, InfoSum, InfoWindow
from rollouts.control.rules import added, info_figures, message_of


def window(
    *sums: tuple[str, str, int, float], dropped: list[InfoDrops] | None = None
) -> InfoWindow:
    return InfoWindow(
        sums=[
            InfoSum(name=name, scope=scope, count=count, total=total)  # type: ignore[arg-type]
            for name, scope, count, total in sums
        ],
        dropped=dropped or [],
    )


def test_metrics_cover_the_time_between_two_measurements() -> None:
    before = added({}, window(("speed", "step", 2, 2.0), ("won", "episode", 1, 1.0))).totals
    after = added(before, window(("speed", "step", 2, 6.0), ("speed", "episode", 1, 9.0))).totals

    assert info_figures({}, before) == {
        "info/speed/step_mean": 1.0,
        "info/speed/step_count": 2.0,
        "info/won/mean": 1.0,
        "info/won/count": 1.0,
    }
    assert info_figures(before, after) == {
        "info/speed/step_mean": 3.0,
        "info/speed/step_count": 2.0,
        "info/speed/mean": 9.0,
        "info/speed/count": 1.0,
    }
    assert info_figures(after, after) == {}


def test_the_first_64_names_of_a_run_are_kept() -> None:
    first = added({}, window(*((f"n{number}", "step", 1, 1.0) for number in range(64))))
    second = added(first.totals, window(("late", "step", 5, 5.0), ("n3", "step", 1, 1.0)))
    third = added(second.totals, window(("later", "step", 1, 1.0)))

    assert first.first_drops == []
    assert second.totals["sums"]["n3"] == {"step": [2, 2.0]}
    assert "late" not in second.totals["sums"]
    [drops] = second.first_drops
    assert (drops.problem, drops.count, drops.example) == ("too_many_names", 5, "late")
    assert (
        message_of(drops) == "Values of info are dropped: more than 64 names; the first is 'late'"
    )
    assert third.first_drops == []
    assert third.totals["dropped"] == {"too_many_names": 6}
    assert info_figures(second.totals, third.totals) == {"info_dropped/too_many_names": 1.0}


def test_a_report_without_values_changes_nothing() -> None:
    assert added({}, InfoWindow()).totals == {}
