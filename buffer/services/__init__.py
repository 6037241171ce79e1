"""Change what the platform remembers about data."""

from buffer.services.archive_export import ExportReport, export_run
from buffer.services.archive_jobs import (
    ArchiveNotFound,
    ArchiveNotReady,
    TooManyArchives,
    archive_file,
    archive_job,
    ask_for_archive,
    ask_for_restoration,
    delete_archive,
    expire_archives,
    work_on_archives,
)
from buffer.services.archive_restore import (
    RestoreReport,
    WrongRunForArchive,
    restore_archive,
)
from buffer.services.arrivals import Receipt
from buffer.services.audits import audit_ledgers
from buffer.services.backpressure import DiskFull, QueueFull
from buffer.services.batches import (
    BatchNotFound,
    Lease,
    LeaseLost,
    TrainerNotRegistered,
    confirm,
    forget_deliveries,
    held_after,
    held_by,
    note_cut,
    note_delivered,
    take,
    take_for_stock,
)
from buffer.services.captures import (
    InvalidCapture,
    NothingCaptured,
    SessionFull,
    SessionOver,
    assembled,
    capture_call,
    forget_captures,
    score_sessions,
)
from buffer.services.corruption import BatchCorrupt, contents_of
from buffer.services.digests import digest_groups
from buffer.services.discards import discard_groups
from buffer.services.entrances import Entrance, UnknownEnvironment, entrance_for_one
from buffer.services.expiry import drop_expired
from buffer.services.followers import (
    CursorBehind,
    Filter,
    FollowerExists,
    Start,
    confirm_read,
    follow,
    unfollow,
)
from buffer.services.fragments import InvalidFragments, accept_fragments, decode_push
from buffer.services.group_sets import SetFull, change_set, drop_set
from buffer.services.groups import RunNotAccepting, accept_groups
from buffer.services.idempotency import (
    Answer,
    InvalidKey,
    KeyInFlight,
    KeyReused,
    PushKey,
    forget_old_keys,
    once,
)
from buffer.services.lapses import (
    NotQuarantined,
    discard,
    quarantine_poison,
    release,
    return_lapsed_batches,
)
from buffer.services.marks import mark_groups, name_label
from buffer.services.pacing import status_of_environment
from buffer.services.previews import mixing, preview
from buffer.services.priorities import update_priorities
from buffer.services.retention import (
    RetentionReport,
    apply_retention,
    retention_limits,
    segments_due,
)
from buffer.services.retries import (
    Claim,
    KeylessPush,
    forget_old_pushes,
    note_answered_push,
    note_sent_push,
    once_without_key,
)
from buffer.services.segments import seal, turn_segment
from buffer.services.settling import drop_open, drop_other_epochs, settle_ended_runs

__all__ = [
    "Answer",
    "ArchiveNotFound",
    "ArchiveNotReady",
    "BatchCorrupt",
    "BatchNotFound",
    "Claim",
    "CursorBehind",
    "DiskFull",
    "Entrance",
    "ExportReport",
    "Filter",
    "FollowerExists",
    "InvalidCapture",
    "InvalidFragments",
    "InvalidKey",
    "KeyInFlight",
    "KeyReused",
    "KeylessPush",
    "Lease",
    "LeaseLost",
    "NotQuarantined",
    "NothingCaptured",
    "PushKey",
    "QueueFull",
    "Receipt",
    "RestoreReport",
    "RetentionReport",
    "RunNotAccepting",
    "SessionFull",
    "SessionOver",
    "SetFull",
    "Start",
    "TooManyArchives",
    "TrainerNotRegistered",
    "UnknownEnvironment",
    "WrongRunForArchive",
    "accept_fragments",
    "accept_groups",
    "apply_retention",
    "archive_file",
    "archive_job",
    "ask_for_archive",
    "ask_for_restoration",
    "assembled",
    "audit_ledgers",
    "capture_call",
    "change_set",
    "confirm",
    "confirm_read",
    "contents_of",
    "decode_push",
    "delete_archive",
    "digest_groups",
    "discard",
    "discard_groups",
    "drop_expired",
    "drop_open",
    "drop_other_epochs",
    "drop_set",
    "entrance_for_one",
    "expire_archives",
    "export_run",
    "follow",
    "forget_captures",
    "forget_deliveries",
    "forget_old_keys",
    "forget_old_pushes",
    "held_after",
    "held_by",
    "mark_groups",
    "mixing",
    "name_label",
    "note_answered_push",
    "note_cut",
    "note_delivered",
    "note_sent_push",
    "once",
    "once_without_key",
    "preview",
    "quarantine_poison",
    "release",
    "restore_archive",
    "retention_limits",
    "return_lapsed_batches",
    "score_sessions",
    "seal",
    "segments_due",
    "settle_ended_runs",
    "status_of_environment",
    "take",
    "take_for_stock",
    "turn_segment",
    "unfollow",
    "update_priorities",
    "work_on_archives",
]
