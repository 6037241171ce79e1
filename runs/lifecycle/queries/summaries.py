"""Read the summary fields of a run."""

from typing import Any

from runs.lifecycle.models.runs import Run
from runs.lifecycle.rules.lifecycle import RunStatus, allowed_verbs
from runs.lifecycle.schemas.runs import RunSummary


def summary_fields(run: Run) -> dict[str, Any]:
    """Return the fields common to all run schemas."""
    given = {field: getattr(run, field, None) for field in RunSummary.__struct_fields__}
    given["created_by"] = run.created_by.get_username() if run.created_by else None
    given["project"] = run.project.name if run.project else None
    given["allowed_verbs"] = [str(verb) for verb in allowed_verbs(RunStatus(run.status))]
    return given
