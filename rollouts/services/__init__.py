"""Operations that change the stored state of fleets."""

from rollouts.services.cluster_looks import note_cluster
from rollouts.services.evaluation_requests import NothingToEvaluate, request_evaluations
from rollouts.services.evaluations import (
    EvaluationLeaseLost,
    EvaluationNotFound,
    LessonNotFound,
    renew_evaluation,
)
from rollouts.services.launches import (
    begin_launch,
    launch_simulation,
    note_ended,
    note_placed,
    note_trouble,
)
from rollouts.services.lesson_outcomes import (
    InvalidOutcome,
    take_outcome,
)
from rollouts.services.lesson_steering import LastLesson, steer_lesson
from rollouts.services.lesson_tasks import (
    next_lesson_task,
)
from rollouts.services.logs import LogNotAsked, NoSuchLog, answer_log, ask_for_log
from rollouts.services.machine_cordons import (
    InvalidMachineCordon,
    MachineUnknown,
    cordon_machine,
    uncordon_machine,
)
from rollouts.services.measuring import measure_run, measure_runs
from rollouts.services.metrics import (
    InvalidMetrics,
    pack_metrics,
    record_metrics,
)
from rollouts.services.orphans import end_orphans
from rollouts.services.outcome_retention import forget_outcomes
from rollouts.services.reconciliation import reconcile
from rollouts.services.recordings import (
    InvalidRecording,
    RecordingNotFound,
    TooManyRecordings,
    give_up_recordings,
    request_recordings,
    update_recording,
)
from rollouts.services.reports import accept_report
from rollouts.services.run_checks import check_run
from rollouts.services.seats import WorkerNotFound, WorkerNotThere
from rollouts.services.worker_cordons import cordon_worker, uncordon_worker
from rollouts.services.worker_restarts import restart_worker
from rollouts.services.worker_stacks import ask_for_stacks

__all__ = [
    "EvaluationLeaseLost",
    "EvaluationNotFound",
    "InvalidMachineCordon",
    "InvalidMetrics",
    "InvalidOutcome",
    "InvalidRecording",
    "LastLesson",
    "LessonNotFound",
    "LogNotAsked",
    "MachineUnknown",
    "NoSuchLog",
    "NothingToEvaluate",
    "RecordingNotFound",
    "TooManyRecordings",
    "WorkerNotFound",
    "WorkerNotThere",
    "accept_report",
    "answer_log",
    "ask_for_log",
    "ask_for_stacks",
    "begin_launch",
    "check_run",
    "cordon_machine",
    "cordon_worker",
    "end_orphans",
    "forget_outcomes",
    "give_up_recordings",
    "launch_simulation",
    "measure_run",
    "measure_runs",
    "next_lesson_task",
    "note_cluster",
    "note_ended",
    "note_placed",
    "note_trouble",
    "pack_metrics",
    "reconcile",
    "record_metrics",
    "renew_evaluation",
    "request_evaluations",
    "request_recordings",
    "restart_worker",
    "steer_lesson",
    "take_outcome",
    "uncordon_machine",
    "uncordon_worker",
    "update_recording",
]
