"""Client of the platform for the fleet of one run."""

from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from rolldeck import tracing
from rolldeck.errors import InvalidAnswerError, NotFoundError
from rolldeck.http import Call, Connection, download
from rolldeck.lessons import (
    LeaseRenewal,
    LeaseRenewed,
    LessonOutcome,
    OutcomeReceipt,
    RolloutTask,
    TaskRequest,
)
from rolldeck.operator_requests import RECORDING_TYPE, LogLines, RecordingUpdate
from rolldeck.tokenizer_files import store_tokenizer
from rolldeck.wire import (
    FRAGMENTS_TYPE,
    GROUPS_TYPE,
    FleetControl,
    FleetReport,
    FragmentReceipt,
    GroupsReceipt,
    WeightsManifest,
    encode,
    encode_push,
)
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.process.storable import to_json

Answer = TypeVar("Answer")


class PlatformApi:
    """Platform client with one attempt per call; the calling loops decide about retries.

    Every method raises a :class:`rolldeck.errors.RolldeckError` when the platform refuses or
    does not answer. The client is thread-safe.
    """

    def __init__(self, settings: FleetSettings) -> None:
        self._path = f"/api/v1/runs/{settings.run}"
        self._connection = Connection(
            settings.platform_url,
            settings.token,
            timeout_seconds=15.0,
            retry_for_seconds=0.0,
        )

    def close(self) -> None:
        """Close the sockets."""
        self._connection.close()

    def control(self, *, after: str, wait_seconds: float) -> FleetControl:
        """Wait for a command whose fingerprint differs from `after`, and return it."""
        params = {"after": after, "wait": wait_seconds}
        call = self._call("GET", "fleet/control", params=params, wait_seconds=wait_seconds)
        return self._decode(call, FleetControl)

    def report(self, report: FleetReport) -> FleetControl:
        """Send a report of the fleet; return the platform's command."""
        return self._decode(self._call("POST", "fleet/report", to_json(report)), FleetControl)

    def answer_log(self, request_id: str, answer: LogLines) -> None:
        """Send the answer to a log or stacks request."""
        self._connection.send(self._call("POST", f"fleet/logs/{request_id}", to_json(answer)))

    def update_recording(self, recording_id: str, update: RecordingUpdate) -> None:
        """Update the state of a recording, with its file when it is finished."""
        path, content = f"recordings/{recording_id}", encode(update)
        self._connection.send(self._call("PUT", path, content, content_type=RECORDING_TYPE))

    def current_weights(self) -> WeightsManifest | None:
        """Return the manifest of the version to use; None if none was published."""
        try:
            call = self._call("GET", "weights/current", params={"acting": 1})
            return self._decode(call, WeightsManifest)
        except NotFoundError as absence:
            if absence.code == "no_weights":
                return None
            raise

    def weights(self, manifest: WeightsManifest) -> memoryview:
        """Download the file described by `manifest`, resuming after connection errors.

        Raises:
            InvalidMessageError: If the content does not match the manifest.
        """
        path = f"{self._path}/weights/{manifest.epoch}/{manifest.step}"
        return download(
            self._connection, path, size_bytes=manifest.size_bytes, sha256=manifest.sha256
        )

    def offer_tokenizer(self, content: bytes) -> None:
        """Store a `tokenizer.json` as the run's tokenizer, unless the run has one."""
        store_tokenizer(self._connection, self._path, content, replace=False)

    def push(self, fragments: list[bytes]) -> FragmentReceipt:
        """Push encoded fragments; their keys make a repetition harmless."""
        call = self._call("POST", "fragments", encode_push(fragments), content_type=FRAGMENTS_TYPE)
        with tracing.span("push fragments", {"rolldeck.items": len(fragments)}):
            return self._decode(call, FragmentReceipt)

    def push_groups(self, content: bytes, *, key: str) -> GroupsReceipt:
        """Push an encoded :class:`rolldeck.wire.GroupPush`; `key` makes a repetition harmless."""
        call = self._call(
            "POST",
            "groups",
            content,
            content_type=GROUPS_TYPE,
            idempotency_key=key,
            is_repeatable=True,
        )
        return self._decode(call, GroupsReceipt)

    def next_task(self, request: TaskRequest) -> RolloutTask:
        """Return the next task of a language worker."""
        return self._decode(self._call("POST", "lessons/tasks", to_json(request)), RolloutTask)

    def record_outcome(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        """Record an outcome of a lesson; its key makes a repetition harmless."""
        path = f"lessons/{quote(lesson, safe='')}/outcomes"
        return self._decode(self._call("POST", path, to_json(outcome)), OutcomeReceipt)

    def renew_evaluation(self, evaluation: str, fence: int) -> LeaseRenewed:
        """Renew the lease of an evaluation."""
        path, renewal = f"evaluations/{evaluation}/lease", LeaseRenewal(fence=fence)
        call = self._call("PUT", path, msgspec.json.encode(renewal), is_repeatable=True)
        return self._decode(call, LeaseRenewed)

    def _call(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        *,
        content_type: str = "application/json",
        is_repeatable: bool = False,
        **options: Any,
    ) -> Call:
        return Call(
            method=method,
            path=f"{self._path}/{path}",
            content=content,
            content_type=content_type,
            is_repeatable=is_repeatable,
            **options,
        )

    def _decode(self, call: Call, kind: type[Answer]) -> Answer:
        answer = self._connection.send(call)
        try:
            return msgspec.json.decode(answer.data, type=kind)
        except msgspec.DecodeError as error:
            raise InvalidAnswerError(
                status=answer.status,
                code="bad_answer",
                detail=f"{call.method} {call.path}: {error}",
            ) from error
