"""Sample labels and a note, as left by people who review samples."""

from typing import Final

from buffer.inspect.services.marks import mark_groups, name_label
from buffer.items.models.items import TrajectoryGroup
from config.seed.scale import ACTOR, RunTimeline
from runs.lifecycle.models.runs import Run

NAMES: Final = {1: "good", 3: "reward hack", 4: "format broken"}
NOTE: Final = "The answer is right, the work is not: it guesses and says so. Worth a rule?"


def write(run: Run, timeline: RunTimeline) -> None:
    """Label and annotate some of a run's groups."""
    groups = list(
        TrajectoryGroup.objects.filter(run=run, segment__isnull=False)
        .order_by("-pk")
        .values_list("pk", flat=True)[:12]
    )
    at = timeline.at(0.97)
    for label, name in NAMES.items():
        name_label(run_id=run.pk, label=label, name=name, actor=ACTOR, now=at)
    for label, some in ((1, groups[1:3]), (3, groups[4:8]), (4, groups[9:10])):
        mark_groups(run_id=run.pk, group_ids=some, changes={"label": label}, actor=ACTOR, now=at)
    mark_groups(
        run_id=run.pk,
        group_ids=groups[4:5],
        changes={"note": NOTE},
        actor=ACTOR,
        now=at,
    )
