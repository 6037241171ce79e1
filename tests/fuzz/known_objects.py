"""Real names and ids for the parameters of the API, from a seeded database."""

from collections.abc import Callable
from typing import Any, Final

from buffer.items.models import FragmentChunk, TrajectoryGroup
from rolldeck.fleet_wire import episode_id
from rollouts.control.models import Recording
from rollouts.curriculum.models import Evaluation, Lesson
from rollouts.metrics.models import Annotation, MetricSeries
from runs.access.models import ApiToken
from runs.alerts.models import Alert, AlertRule, AlertSnooze
from runs.lifecycle.models import PolicyVersion, Run
from runs.projects.models import Project
from runs.saved.models import SavedObject

LIVE: Final = "seed-cartpole-live"
RUN_OF_TAG: Final = {
    "atropos": "demo",
    "archives": "leased",
    "batches": "leased",
    "captures": "demo",
    "followers": "leased",
    "groups": "seed-atropos-mix",
    "lessons": "seed-reverse-lessons",
}
NODE: Final = "4f" * 28
SPARE: Final = "spare"
"""Run for operations that end, empty or replace a run."""
ENDS_A_RUN: Final = ("/start", "/pause", "/resume", "/drain", "/stop", "/kill", "/reset")
QUERY: Final = {"client": "address:127.0.0.1", "of": "env", "runs": LIVE}
QUERY_OF: Final[dict[str, dict[str, Any]]] = {
    "/atropos/{run}/status-env": {"env_id": 0},
    "/api/v1/environments/detail": {"kind": "steps", "name": "gymnasium:CartPole-v1"},
}


class KnownObjects:
    """Parameters that name existing objects."""

    def __init__(self, lease: dict[str, Any]) -> None:
        leased = {"run": lease["run"], "batch": lease["batch"]}
        self._objects: dict[str, dict[str, Any]] = {
            "batch": leased,
            "archive": {"run": lease["run"], "archive": lease["archive"]},
            "follower": {"run": lease["run"], "follower": "harvest"},
            "session": {"run": "demo", "session": "agent"},
            "worker": {"run": LIVE, "worker": 0},
            "node": {"node": NODE},
            "env_id": {"run": "demo", "env_id": 0},
            "sequence": {"sequence": 0},
            **self._rows(),
        }
        first = FragmentChunk.objects.filter(run__name=LIVE).order_by("pk").first()
        episode = {"episode": episode_id(first.slot, 1)} if first else {}
        self._query = QUERY | episode | {"ids": str(Run.objects.get(name=LIVE).pk)} | self._metric()

    def _rows(self) -> dict[str, dict[str, Any]]:
        known: dict[str, dict[str, Any]] = {}
        alone: dict[str, Any] = {
            "alert": Alert,
            "rule": AlertRule,
            "snooze": AlertSnooze,
        }
        for name, model in alone.items():
            if row := model.objects.order_by("pk").first():
                known[name] = {name: row.pk}
        in_runs: dict[str, tuple[Any, Callable[[Any], Any]]] = {
            "annotation": (Annotation, lambda row: row.pk),
            "evaluation": (Evaluation, lambda row: str(row.pk)),
            "fragment": (FragmentChunk, lambda row: row.pk),
            "group": (TrajectoryGroup, lambda row: row.pk),
            "lesson": (Lesson, lambda row: row.name),
            "recording": (Recording, lambda row: str(row.pk)),
        }
        for name, (model, value) in in_runs.items():
            # Only a finished recording has content.
            rows = model.objects.filter(**({"state": "ready"} if model is Recording else {}))
            if row := rows.order_by("pk").first():
                run = Run.objects.get(pk=row.run_id) if hasattr(row, "run_id") else row.run
                known[name] = {"run": run.name, name: value(row)}
        if version := PolicyVersion.objects.filter(run__name=LIVE).order_by("-pk").first():
            known["epoch"] = {"run": LIVE, "epoch": version.epoch, "step": version.step}
        saved = SavedObject.objects.filter(deleted_at=None).select_related("run").order_by("-pk")
        for row in saved:
            value = row.name if row.kind == "preset" else row.pk
            known[row.kind] = {"run": row.run.name if row.run else LIVE, row.kind: value}
        if project := Project.objects.order_by("pk").first():
            known["project"] = {"project": project.name}
        token = ApiToken.objects.exclude(scopes__contains=["admin"]).first()
        return known | ({"token": {"token": token.pk}} if token else {})

    def _metric(self) -> dict[str, str]:
        series = MetricSeries.objects.filter(run__name=LIVE).first()
        return {"name": series.name, "names": series.name} if series else {}

    def path(self, operation: Any) -> dict[str, Any]:
        """Return values for the path parameters of an operation."""
        required = {parameter.name for parameter in operation.path_parameters}
        tag = operation.definition.raw["tags"][0]
        ends = (operation.method, operation.path) == ("delete", "/api/v1/runs/{run}") or (
            operation.method == "post" and operation.path.endswith(ENDS_A_RUN)
        )
        known = {
            "run": SPARE if ends or "reset_data" in operation.path else RUN_OF_TAG.get(tag, LIVE)
        }
        for name in sorted(required):
            known |= self._objects.get(name, {})
        return {name: value for name, value in known.items() if name in required}

    def query(self, operation: Any) -> dict[str, Any]:
        """Return values for the required query parameters of an operation."""
        if operation.path in QUERY_OF:
            return QUERY_OF[operation.path]
        required = {parameter.name for parameter in operation.query if parameter.is_required}
        return {name: value for name, value in self._query.items() if name in required}
