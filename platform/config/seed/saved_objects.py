"""Sample notes, saved presets, a saved comparison and a project."""

from datetime import datetime, timedelta
from typing import Any, Final

from config.seed import texts
from config.seed.people import owner
from config.seed.scale import ACTOR, PREFIX
from rollouts.metrics.rules.charts import COMPARISON
from rollouts.metrics.schemas import ComparisonView, SaveComparison
from rollouts.metrics.services.charts import save_comparison
from runs.config.rules.preset_rules import PRESET
from runs.config.services.presets import save_preset
from runs.lifecycle.models.runs import Run
from runs.lifecycle.services.notes import write_notes
from runs.lifecycle.services.run_settings import change_settings
from runs.projects.models import Project
from runs.projects.services import create_project
from runs.saved.models import SavedObject

_FIRST: Final = "Baseline for the reversal lessons. Looks healthy until step 80."
_LESSONS: Final = """\
**Baseline** for the reversal lessons; compare everything with this one.

| lesson | graduated after |
|---|---|
| reverse-4-letters | 25 train steps |
| reverse-8-letters | 60 train steps |

- [x] rehearsal at 0.2: without it `reverse` was forgotten while `sort` was learnt
- [ ] try a larger group size

Next: see [the sweep](/runs?q=tag:sweep).
"""
_HOSTILE: Final = (
    f"# {texts.MARKUP}\n\n{texts.DECEPTIVE} [a link](javascript:alert(1)) ![](https://x/)"
)
_PROJECT: Final = f"{PREFIX}poles"
_PRESETS: Final[tuple[tuple[str, str, str, dict[str, Any]], ...]] = (
    (
        f"{PREFIX}four-workers",
        "CartPole on four workers, as in the sweep",
        "open",
        {"fleet": {"num_workers": 4, "envs_per_worker": 8}, "buffer": {"batch_size": 32}},
    ),
    (
        f"{PREFIX}pendulum-slow",
        "Pendulum with a long horizon, one version behind at most",
        "shared",
        {"environment": {"spec": "gymnasium:Pendulum-v1"}, "buffer": {"max_staleness": 1}},
    ),
)


def write(*, now: datetime) -> None:
    """Write notes, one with an edit, two presets, a comparison, and a project with two runs."""
    _note("reverse-lessons", _FIRST, revision=0, at=now - timedelta(hours=4))
    _note("reverse-lessons", _LESSONS, revision=1, at=now - timedelta(hours=2))
    _note("hostile-text", _HOSTILE, revision=0, at=now - timedelta(minutes=20))
    _comparison(now=now - timedelta(hours=1))
    _project(now=now - timedelta(days=2))
    for name, description, access, config in _PRESETS:
        if SavedObject.objects.of(PRESET).filter(name=name).exists():
            continue
        save_preset(
            name=name,
            description=description,
            access=access,
            config=config,
            person=owner(),
            actor=ACTOR,
            now=now - timedelta(days=3),
        )


def _project(*, now: datetime) -> None:
    if not Project.objects.filter(name=_PROJECT).exists():
        create_project(
            name=_PROJECT,
            title="Balance a pole",
            description="Step runs on CartPole, compared by return.",
            defaults={"preset": "cartpole", "config": {"seed": 7}, "tags": ["sweep"]},
            actor=ACTOR,
            now=now,
        )
    for name in ("cartpole-live", "cartpole-paused"):
        run = Run.objects.current().get(name=f"{PREFIX}{name}")
        change_settings(run_id=run.pk, changes={"project": _PROJECT}, actor=ACTOR, now=now)


def _comparison(*, now: datetime) -> None:
    name = "Lessons and a control task"
    if SavedObject.objects.of(COMPARISON).filter(name=name).exists():
        return
    view = ComparisonView(
        runs=[f"{PREFIX}reverse-lessons", f"{PREFIX}cartpole-live"],
        metrics=["rolldeck/reward/mean", "rolldeck/queue/depth"],
        x="elapsed",
    )
    body = SaveComparison(name=name, remarks="Returns are not of one scale.", view=view)
    save_comparison(body=body, actor=ACTOR, now=now)


def _note(name: str, text: str, *, revision: int, at: datetime) -> None:
    run = Run.objects.current().get(name=f"{PREFIX}{name}")
    write_notes(run_id=run.pk, text=text, revision=revision, actor=ACTOR, now=at)
