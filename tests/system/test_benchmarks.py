"""The benchmarks run: a real server, real sockets, and a load in a separate process."""

import pytest

from benchmarks.bench import Bench
from benchmarks.rows import floor, p2_batch, p6_delivery, p10_live, p12_generation
from tests.initial_database import copy_database

pytestmark = [pytest.mark.system, pytest.mark.full("starts, loads and kills servers for minutes")]


def tiny_bench(output: list[str]) -> Bench:
    """Return a bench with minimal sizes, which only tests the benchmarks."""
    return Bench(pairs=1, tiny=True, alone=True, say=output.append, prepare=copy_database)


def test_rows_are_measured_on_a_real_server() -> None:
    output: list[str] = []
    bench = tiny_bench(output)

    batches = p2_batch.ROW.result(bench)
    delivery = p6_delivery.ROW.result(bench)

    assert batches["ours"] > 0
    assert batches["mark_met"] is False  # measured without a peer
    assert batches["cpu_ms"]["ours"].keys() == {"web", "postgres"}
    assert delivery["samples"] == 5
    assert 0 < delivery["p50_ms"] <= delivery["p99_ms"]
    assert "PostgreSQL 18" in bench.machine
    assert len(output) == 2


def test_the_floor_of_the_machine_is_measured_in_parts() -> None:
    result = floor.ROW.result(tiny_bench([]))

    assert all(result[name] > 0 for name in ("receive_ms", "P1_ms", "P2_ms", "P4_ms"))
    assert result["P1_ms"] > result["receive_ms"]


def test_groups_are_generated_from_a_checkpoint() -> None:
    bench = tiny_bench([])

    assert p12_generation.ROW.result(bench)["ours"] > 0


def test_live_pages_receive_changes_during_pushes() -> None:
    bench = tiny_bench([])

    result = p10_live.ROW.result(bench)

    assert result["frames"] >= result["sockets"]
    assert 0 < result["late_p50_ms"] <= result["late_p95_ms"] <= result["late_max_ms"]
