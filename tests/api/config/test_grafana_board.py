"""The Grafana board uses only metrics of `/metrics`, in valid PromQL."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest

from config.monitoring import metrics_text

BOARD = Path(__file__).parents[3] / "docs/reference/grafana-board.json"
LABELS = {"run", "reason", "status", "state", "severity", "count"}


def board() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(BOARD.read_text("utf-8"))
    return document


def selectors(node: Any) -> Iterator[promql_parser.VectorSelector]:
    """Yield all metric selectors of a query."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for name in ("expr", "lhs", "rhs", "vector_selector", "vs"):
        inner = getattr(node, name, None)
        if inner is not None and not isinstance(inner, str):
            yield from selectors(inner)
    for argument in getattr(node, "args", None) or []:
        yield from selectors(argument)


@pytest.mark.django_db
def test_every_query_of_the_board_reads_existing_metrics() -> None:
    known = set(re.findall(r"^# TYPE (\S+) gauge$", metrics_text().decode(), re.MULTILINE))
    queries = [target["expr"] for panel in board()["panels"] for target in panel.get("targets", [])]

    read = [selector for query in queries for selector in selectors(promql_parser.parse(query))]

    assert len(queries) > 15
    assert len(read) >= len(queries)
    assert {selector.name for selector in read} <= known
    assert {label.name for selector in read for label in selector.matchers.matchers} <= LABELS
    unseen = known - {selector.name for selector in read}
    assert unseen == set(), "metrics without a panel"


def test_the_board_has_the_import_format_of_grafana() -> None:
    dashboard = board()
    ids = [panel["id"] for panel in dashboard["panels"]]
    places: set[tuple[int, int]] = set()

    assert dashboard["schemaVersion"] >= 36
    assert dashboard["uid"] == "rolldeck"
    assert "id" not in dashboard, "ids are specific to one Grafana server"
    assert len(set(ids)) == len(ids)
    assert {variable["name"] for variable in dashboard["templating"]["list"]} == {
        "datasource",
        "run",
    }
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        covered = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24, panel["title"]
        assert not covered & places, f"{panel['title']} overlaps another panel"
        places |= covered
        for target in panel.get("targets", []):
            assert target["datasource"]["uid"] == "${datasource}"
