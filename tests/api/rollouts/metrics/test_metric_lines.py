"""Chart lines over packed and unpacked samples keep every spike."""

from datetime import timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from rollouts.metrics.models import MetricChunk, MetricSample
from rollouts.metrics.rules import CHUNK_SAMPLES
from rollouts.metrics.schemas import Metric, MetricsPush
from rollouts.metrics.services.metrics import (
    SAMPLES_KEPT,
    Figure,
    pack_metrics,
    record_metrics,
    store_figures,
)
from runs.lifecycle.models import Run
from tests.factories import NOON, bearer, make_run

pytestmark = pytest.mark.django_db
FULL = CHUNK_SAMPLES + SAMPLES_KEPT


@pytest.fixture
def run() -> Run:
    return make_run(name="pole")


def get(run: Run, path: str, *, status: int = 200, **query: Any) -> Any:
    answer = APIClient().get(
        f"/api/v1/runs/{run.name}/metrics/{path}", query, headers=bearer("read", run=run)
    )
    assert answer.status_code == status, answer.content
    return answer.json()


def line(run: Run, name: str = "loss", **query: Any) -> dict[str, Any]:
    series: dict[str, Any] = get(run, "lines", names=name, **query)["lines"][0]
    return series


def write(run: Run, values: list[float], *, name: str = "loss", first_step: int = 0) -> None:
    """Store one value per step, one each second from noon on."""
    for i, value in enumerate(values):
        at = NOON + timedelta(seconds=first_step + i)
        store_figures(run_id=run.pk, figures=[Figure(name, first_step + i, value)], now=at)


def pack(run: Run) -> int:
    return pack_metrics(now=NOON + timedelta(days=1))


def write_many(run: Run, count: int, *, spike_at: int = -1, name: str = "loss") -> None:
    figures = [Figure(name, i, 1000.0 if i == spike_at else i % 7) for i in range(count)]
    store_figures(run_id=run.pk, figures=figures, now=NOON)


def test_few_samples_are_returned_without_buckets(run: Run) -> None:
    write(run, [0.5, 0.25, 0.125])

    series = line(run)

    assert (series["x"], series["last"]) == ([0, 1, 2], [0.5, 0.25, 0.125])
    assert (series["is_exact"], series["bucket"], series["samples"]) == (True, 1, 3)
    assert series["min"] == series["max"] == series["count"] == []


def test_packing_samples_does_not_change_a_line(run: Run) -> None:
    write_many(run, 3 * FULL, spike_at=1700)
    queries: list[dict[str, Any]] = [
        *({"points": 50}, {"points": 2000}, {"points": 20, "from": 1000, "to": 1999}),
        *({"points": 3, "from": 1023, "to": 1025}, {"points": 10, "x": "time"}),
    ]
    before = [line(run, **query) for query in queries]

    assert pack(run) == 3
    assert MetricChunk.objects.count() == 3
    assert MetricSample.objects.count() == 3 * FULL - 3 * CHUNK_SAMPLES

    after = [line(run, **query) for query in queries]
    # Blocks of 64 samples may end in a bucket where samples alone would not.
    for was, now in zip(before, after, strict=True):
        assert now["samples"] == was["samples"]
        assert max(now["max"] or now["last"]) == max(was["max"] or was["last"])
        assert min(now["min"] or now["last"]) == min(was["min"] or was["last"])
        assert (now["x"][-1], now["last"][-1]) == (was["x"][-1], was["last"][-1])


def test_a_spike_is_in_the_band_at_every_zoom(run: Run) -> None:
    write_many(run, 3 * FULL, spike_at=1700)
    pack(run)

    wide = line(run, points=10)
    assert max(wide["max"]) == 1000
    here = next(i for i, top in enumerate(wide["max"]) if top == 1000)

    near = line(run, points=500, **{"from": wide["x_first"][here], "to": wide["x"][here]})
    assert near["bucket"] < wide["bucket"]
    spike = next(i for i, top in enumerate(near["max"] or near["last"]) if top == 1000)
    assert near["x_first"][spike] <= 1700 <= near["x"][spike] if near["x_first"] else True
    assert line(run, **{"from": 1700, "to": 1700})["last"] == [1000]


def test_the_edges_of_a_range_are_exact(run: Run) -> None:
    write_many(run, 3 * FULL)
    pack(run)

    series = line(run, points=7, **{"from": 100, "to": 2900})

    assert series["samples"] == 2801
    assert (series["x_first"][0], series["x"][-1]) == (100, 2900)


def test_numbers_that_are_not_finite_are_gaps_with_a_count(run: Run) -> None:
    nan, inf = float("nan"), float("inf")
    write(run, [1.0, nan, inf, -inf, 2.0])

    each = line(run)
    assert each["last"] == [1.0, None, None, None, 2.0]
    assert (each["nans"], each["infinities"]) == (1, 2)

    together = line(run, points=1)
    assert (together["min"], together["max"], together["mean"]) == ([1.0], [2.0], [1.5])
    assert (together["count"], together["gaps"]) == ([5], [3])


def test_nan_is_sent_as_text_and_read_back(run: Run) -> None:
    samples = [Metric(name="loss", step=1, value="NaN"), Metric(name="loss", step=2, value=0.5)]
    record_metrics(run_id=run.pk, push=MetricsPush(samples=samples), now=NOON)

    assert get(run, "samples", name="loss")["value"] == ["NaN", 0.5]
    assert get(run, "keys")["results"][0] | {"at": ""} == {
        "name": "loss", "step": 2, "value": 0.5, "at": "",
    }  # fmt: skip


def test_several_values_at_one_step_are_one_point_with_a_band(run: Run) -> None:
    figures = [Figure("loss", step, value) for step, value in [(1, 5.0), (1, 3.0), (1, 4.0)]]
    store_figures(run_id=run.pk, figures=figures, now=NOON)

    series = line(run)

    assert (series["x"], series["min"], series["max"], series["last"]) == ([1], [3], [5], [4])
    assert series["mean"] == [4]


def test_decreasing_steps_become_an_ordered_line_with_all_values(run: Run) -> None:
    figures = [Figure("loss", step, 1.0) for step in range(2000)]
    figures += [Figure("loss", step, 2.0) for step in range(1000, 3000)]
    store_figures(run_id=run.pk, figures=figures, now=NOON)
    pack(run)

    series = line(run, points=30)

    assert series["samples"] == 4000
    assert series["x"] == sorted(set(series["x"]))
    assert (min(series["min"]), max(series["max"])) == (1.0, 2.0)


def test_every_sample_can_be_read_page_by_page_packed_or_not(run: Run) -> None:
    write_many(run, 3 * FULL)
    pack(run)
    steps: list[int] = []
    after: int | None = 0
    while after is not None:
        page = get(run, "samples", name="loss", after=after, limit=700)
        steps += page["step"]
        after = page["next"]

    assert steps == list(range(3 * FULL))


def test_packing_skips_the_newest_samples(run: Run) -> None:
    write_many(run, FULL - 1)
    assert pack(run) == 0
    write(run, [1.0], first_step=FULL)
    assert pack_metrics(now=NOON + timedelta(seconds=30)) == 0
    assert pack(run) == 1
    assert MetricSample.objects.count() == SAMPLES_KEPT
    rows = APIClient().get("/api/v1/runs/pole/metrics", headers=bearer("read", run=run)).json()
    assert len(rows["results"]) == SAMPLES_KEPT


def test_names_are_searched_and_paged(run: Run) -> None:
    names = [f"layer/{i}/grad norm" for i in range(30)] + ["loss", "Loss/policy"]
    store_figures(run_id=run.pk, figures=[Figure(n, 1, 0.0) for n in names], now=NOON)

    first = get(run, "keys", search="norm", limit=20)
    rest = get(run, "keys", search="norm", limit=20, cursor=first["next"])
    assert (first["total"], rest["next"]) == (30, None)
    rows = [row["name"] for row in first["results"] + rest["results"]]
    assert sorted(rows) == sorted(names[:30])
    assert [row["name"] for row in get(run, "keys", search="LOSS pol")["results"]] == [
        "Loss/policy"
    ]
    assert get(run, "keys", prefix="layer/2")["total"] == 11


def test_lines_of_several_runs_have_the_requested_order(run: Run) -> None:
    other = make_run(name="other")
    write(run, [1.0])
    write(other, [2.0])

    answer = APIClient().get(
        "/api/v1/metrics/lines",
        {"runs": "other,pole", "names": "loss,entropy"},
        headers=bearer("read"),
    )

    lines = [(line["run"], line["name"], line["last"]) for line in answer.json()["lines"]]
    assert lines == [
        ("other", "loss", [2.0]),
        ("other", "entropy", []),
        ("pole", "loss", [1.0]),
        ("pole", "entropy", []),
    ]


def test_runs_of_different_days_are_aligned_at_their_start(run: Run) -> None:
    later = make_run(name="later")
    Run.objects.filter(pk=run.pk).update(created_at=NOON)
    began = NOON + timedelta(seconds=FULL)
    Run.objects.filter(pk=later.pk).update(created_at=NOON, trainer_started_at=began)
    for tens in range(0, 2 * FULL, 10):
        figures = [Figure("loss", i, float(i)) for i in range(tens, tens + 10)]
        for each_run in (run, later):
            store_figures(run_id=each_run.pk, figures=figures, now=NOON + timedelta(seconds=tens))
    query = {"runs": "pole,later", "names": "loss", "x": "elapsed", "points": 2000}

    def drawn(**more: Any) -> list[dict[str, Any]]:
        answer = APIClient().get("/api/v1/metrics/lines", query | more, headers=bearer("read"))
        lines: list[dict[str, Any]] = answer.json()["lines"]
        return lines

    young = drawn()
    assert pack(run) == 2 * 2
    old = drawn()
    for first, second in (young, old):
        assert first["samples"] == second["samples"] == 2 * FULL
        # Samples from before the second run's first trainer have negative times.
        assert (first["x"][-1], second["x"][-1]) == (2 * FULL - 10, FULL - 10)
        assert min(second["x_first"] or second["x"]) == -FULL
    first, second = drawn(**{"from": -20.0, "to": 10.5})
    assert (first["x"], second["x"]) == ([0, 10], [-20, -10, 0, 10])
    assert second["last"] == [FULL - 11, FULL - 1, FULL + 9, FULL + 19]


WRONG = {
    "no names": ({}, "names"),
    "too many names": ({"names": ",".join(map(str, range(51)))}, "names"),
    "an x unknown": ({"names": "a", "x": "moon"}, "x"),
    "a first that is no number": ({"names": "a", "from": "x"}, "from"),
    "a first that is infinite": ({"names": "a", "from": "inf"}, "from"),
    "a range turned round": ({"names": "a", "from": 2, "to": 1}, "to"),
    "a last below zero": ({"names": "a", "to": -1}, "to"),
    "a time beyond time": ({"names": "a", "x": "elapsed", "from": -1e14}, "from"),
    "no points": ({"names": "a", "points": 0}, "points"),
    "a name with a NUL": ({"names": "\x00"}, "names"),
}


@pytest.mark.parametrize(("query", "field"), WRONG.values(), ids=WRONG.keys())
def test_an_invalid_query_is_refused_with_its_field(run: Run, query: Any, field: str) -> None:
    assert get(run, "lines", status=400, **query)["errors"][0]["field"] == field


def test_names_of_the_server_are_refused_and_nothing_is_stored(run: Run) -> None:
    samples = [{"name": name, "step": 1, "value": 1.0} for name in ("loss", "rolldeck/queue")]
    answer = APIClient().post(
        "/api/v1/runs/pole/metrics",
        {"samples": samples},
        format="json",
        headers=bearer("trainer", run=run),
    )

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "samples[1].name"
    assert not MetricSample.objects.exists()


def test_samples_of_an_unknown_name_are_not_found(run: Run) -> None:
    assert get(run, "samples", status=404, name="moon")["code"] == "not_found"


def test_all_metric_names_of_a_run_are_returned_at_once(run: Run) -> None:
    figures = [Figure(name, 1, 1.0) for name in ("b/c", "a", "b/a")]
    store_figures(run_id=run.pk, figures=figures, now=NOON)

    assert get(run, "names") == {"results": ["a", "b/a", "b/c"], "next": None}
