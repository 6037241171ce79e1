"""Queries about fleets and lessons for pages, fleets and the reconciler."""

from rollouts.selectors.attempts import attempts
from rollouts.selectors.curricula import (
    NoCurriculum,
    check_language,
    curriculum_of,
)
from rollouts.selectors.episode_windows import (
    ROWS_AT_MOST,
    WINDOWS_AT_MOST,
    episode_series,
    episode_summary,
    episodes,
)
from rollouts.selectors.fleets import (
    control_of,
    fleet_log,
    fleet_state,
    fleet_view,
    has_launched,
    running_fragments,
    runs_to_reconcile,
    weights_transfers,
)
from rollouts.selectors.flows import (
    EpisodeFlow,
    counts_of,
    episode_flow,
    fleet_waited,
    has_moved,
    runs_to_measure,
)
from rollouts.selectors.lesson_progress import (
    BUCKETS_AT_MOST,
    lesson_progress,
    micro_evaluations,
)
from rollouts.selectors.lessons import (
    LESSON_ROWS_AT_MOST,
    MOST_WITH_SAMPLES,
    NoSuchEvaluation,
    curriculum_part,
    evaluation,
    evaluations,
    lesson_changes,
    lessons,
)
from rollouts.selectors.machines import machine_cordon, machine_cordons, why_no_machine
from rollouts.selectors.metrics import (
    KEYS_AT_MOST,
    SAMPLES_AT_ONCE,
    NoSuchMetric,
    last_samples,
    metric_keys,
    metric_part,
    metrics,
    samples_of,
)
from rollouts.selectors.moments import moment
from rollouts.selectors.outlooks import (
    figure_outlooks,
    fleet_outlooks,
    rate_for_lists,
    staleness_for_lists,
)
from rollouts.selectors.pipelines import pipeline_of, verdict_of, verdicts
from rollouts.selectors.places import workers_by_node
from rollouts.selectors.recordings import (
    RECORDINGS_AT_MOST,
    NoFilm,
    film,
    film_preview,
    recording,
    recording_row,
    recordings,
)
from rollouts.selectors.series import AXES, TIMES, Asked, lines
from rollouts.selectors.wanted import LOG_WANTED_FOR, LOGS_AT_ONCE
from rollouts.selectors.worker_stacks import worker_stacks

__all__ = [
    "AXES",
    "BUCKETS_AT_MOST",
    "KEYS_AT_MOST",
    "LESSON_ROWS_AT_MOST",
    "LOGS_AT_ONCE",
    "LOG_WANTED_FOR",
    "MOST_WITH_SAMPLES",
    "RECORDINGS_AT_MOST",
    "ROWS_AT_MOST",
    "SAMPLES_AT_ONCE",
    "TIMES",
    "WINDOWS_AT_MOST",
    "Asked",
    "EpisodeFlow",
    "NoCurriculum",
    "NoFilm",
    "NoSuchEvaluation",
    "NoSuchMetric",
    "attempts",
    "check_language",
    "control_of",
    "counts_of",
    "curriculum_of",
    "curriculum_part",
    "episode_flow",
    "episode_series",
    "episode_summary",
    "episodes",
    "evaluation",
    "evaluations",
    "figure_outlooks",
    "film",
    "film_preview",
    "fleet_log",
    "fleet_outlooks",
    "fleet_state",
    "fleet_view",
    "fleet_waited",
    "has_launched",
    "has_moved",
    "last_samples",
    "lesson_changes",
    "lesson_progress",
    "lessons",
    "lines",
    "machine_cordon",
    "machine_cordons",
    "metric_keys",
    "metric_part",
    "metrics",
    "micro_evaluations",
    "moment",
    "pipeline_of",
    "rate_for_lists",
    "recording",
    "recording_row",
    "recordings",
    "running_fragments",
    "runs_to_measure",
    "runs_to_reconcile",
    "samples_of",
    "staleness_for_lists",
    "verdict_of",
    "verdicts",
    "weights_transfers",
    "why_no_machine",
    "worker_stacks",
    "workers_by_node",
]
