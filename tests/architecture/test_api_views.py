"""Every view of the API has the base that frees requests, and a handler."""

import pytest

from config.machines import machine_route
from runs.access.rules import MACHINE_SCOPES
from tests.rights_table import ROWS
from tests.routes import routes
from web.http.views import ApiView

# Machines call these rarely, or their bodies and responses do not fit into memory.
SERVED_BY_DJANGO = {
    *("RunView", "TrainersView", "RecordingView"),
    *("WeightsView", "WeightsCommandsView", "CurrentWeightsView", "WeightsFileView"),
    *("CapturedCallsView", "ScoresView"),
    *("TensorsView", "ReadTensorsView", "DeleteTensorsView", "MoveTensorsView"),
    *("TokenizerView", "TokenizerFileView"),
    *("LessonTasksView", "LessonOutcomesView", "EvaluationLeaseView"),
    *("MetricsView", "AnnotationsView", "AnnotationView"),
}


def test_every_view_of_the_api_is_an_api_view() -> None:
    views = {route.view for route in routes() if route.view is not None}
    others = {view for view in views if not issubclass(view, ApiView)}

    assert len(views) > 100
    assert {view.__module__ for view in others} == {
        "config.api_document",
        "drf_spectacular.views",
    }


def test_every_route_for_tokens_of_machines_names_its_handler() -> None:
    views = {(method, route.address): route.view for route in routes() for method in route.methods}
    called = {views[call] for call, callers in ROWS.items() if callers & MACHINE_SCOPES}

    assert {view.__name__ for view in called if not view.serves_machines} == SERVED_BY_DJANGO


@pytest.mark.parametrize(
    ("path", "headers", "is_for_machines"),
    [
        ("/scored_data", [(b"cookie", b"a=b")], True),
        ("/atropos/alpha/batch", [], True),
        ("/api/v1/runs/alpha/batches/next", [], True),
        ("/api/v1/runs/alpha/batches/next", [(b"cookie", b"a=b")], False),
        ("/api/v1/runs/alpha/groups", [], True),
        ("/api/v1/runs/alpha/groups/export", [], False),
        ("/api/v1/runs/alpha/groups/unknown", [], False),
        ("/api/v1/session", [], False),
        ("/", [], False),
    ],
)
def test_a_machine_is_known_by_its_route_and_the_absence_of_cookies(
    path: str, headers: list[tuple[bytes, bytes]], is_for_machines: bool
) -> None:
    scope = {"type": "http", "path": path, "headers": headers}

    assert (machine_route(scope) is not None) == is_for_machines
