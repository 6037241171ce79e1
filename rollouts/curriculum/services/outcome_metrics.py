"""Series of a run from the outcomes of its lessons.

Names, with the success as a rate, and tokens and truncated answers per answer:

- ``rollout/<lesson>/…`` and ``env/<lesson>/<metric>`` of training tasks,
- ``eval/<lesson>/…`` and ``eval/<lesson>/env/<metric>`` of evaluations,
- ``micro_eval/<lesson>/…`` and ``micro_eval/<lesson>/env/<metric>`` of micro-evaluations.
"""

import logging
from datetime import datetime
from typing import Final

from rolldeck.lessons import LessonOutcome
from rollouts.metrics.services.metrics import Figure, InvalidMetrics, store_figures

logger = logging.getLogger(__name__)

_PREFIXES: Final = {"train": "rollout", "eval": "eval", "micro_eval": "micro_eval"}


def store_outcome_metrics(
    run_id: int, lesson: str, outcome: LessonOutcome, *, now: datetime
) -> None:
    """Store the figures of a new outcome as samples at its policy version.

    If the run has too many series, they are not stored, and the outcome still counts.
    """
    step = max(0, outcome.policy_step)
    figures = [Figure(name, step, value) for name, value in _values(lesson, outcome).items()]
    if not figures:
        return
    try:
        store_figures(run_id=run_id, figures=figures, now=now)
    except InvalidMetrics as full:
        logger.warning("metrics of lesson %s were not stored: %s", lesson, full.message)


def _values(lesson: str, outcome: LessonOutcome) -> dict[str, float]:
    count = len(outcome.rewards)
    if not count:
        return {}
    prefix = f"{_PREFIXES[outcome.mode]}/{lesson}"
    own = f"env/{lesson}" if outcome.mode == "train" else f"{prefix}/env"
    found = {
        f"{prefix}/success": sum(outcome.successes) / count,
        f"{prefix}/reward": sum(outcome.rewards) / count,
        f"{prefix}/tokens": outcome.tokens / count,
        f"{prefix}/truncated_share": outcome.truncated / count,
    }
    return found | {f"{own}/{name}": value for name, value in outcome.metrics.items()}
