"""Store captured calls, and form groups from scored sessions."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import numpy as np
from django.conf import settings
from django.db import transaction
from django.db.models import F

from buffer.capture.models import CapturedCall, CaptureSession, CaptureState
from buffer.capture.queries import CaptureNotFound
from buffer.capture.rules import Assembled, assemble
from buffer.ingest.schemas.bodies import InvalidBody
from buffer.ingest.schemas.groups import Group, ShortRollouts, unscored_group
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.pushes import (
    accept_groups,
    check_accepts,
    check_kind,
    decoding_options,
)
from buffer.items.rules.states import ItemKind
from rolldeck.captures import CallPush, ScoreReceipt
from rolldeck.training.advantages import RULES
from runs.events.services import record_event
from runs.lifecycle.models import Run, UnscoredSequences
from web.disk_space import check_disk
from web.rules.errors import Conflict, FieldError, InvalidData, TooLarge

MOST_CALLS: Final = 4096
MOST_BYTES: Final = 64 << 20
"""Maximum total size of the calls of one session."""


class SessionOver(Conflict):
    """The session is scored or expired, and accepts neither calls nor scores."""

    code = "session_over"
    title = "The session is over"


class SessionFull(TooLarge):
    """The session is at its limit of calls or bytes."""

    code = "session_full"
    title = "The session is full"


class InvalidCapture(FieldError, InvalidData):
    """A captured call is inconsistent; `field` is the path."""


class NothingCaptured(Conflict):
    """The sessions contain no tokens of the policy to train on."""

    code = "nothing_captured"
    title = "Nothing was captured"


@dataclass(frozen=True, slots=True)
class _Scored:
    session: CaptureSession
    score: float
    calls: list[CallPush]
    assembled: Assembled


@transaction.atomic
def capture_call(*, run: Run, session: str, call: CallPush, now: datetime) -> tuple[int, bool]:
    """Store a call; return its number in the session, and whether it is new.

    Args:
        run: The run whose policy answered.
        session: Name of the session; the first call creates it.
        call: The captured call.
        now: Time of the request.

    Raises:
        InvalidCapture: If the call is inconsistent.
        RunNotAccepting: If the run accepts no groups.
        SessionOver: If the session is scored or expired.
        SessionFull: If the session is at its limit.
        DiskFull: If free disk space is below the minimum.
    """
    check_call(call)
    check_kind(run, ItemKind.GROUPS)
    check_accepts(run)
    CaptureSession.objects.bulk_create(
        [CaptureSession(run=run, name=session, created_at=now, changed_at=now)],
        ignore_conflicts=True,
    )
    held = CaptureSession.objects.select_for_update().get(run=run, name=session)
    known = CapturedCall.objects.filter(session=held, key=call.key).first()
    if known is not None:
        return known.number, False
    if held.state != CaptureState.OPEN:
        raise SessionOver(f"session {session!r} is {held.state} and accepts no more calls")
    check_disk()
    content = msgspec.msgpack.encode(call)
    if held.calls >= MOST_CALLS or held.size_bytes + len(content) > MOST_BYTES:
        raise SessionFull(
            f"session {session!r} has {held.calls} calls and {held.size_bytes} bytes; "
            f"at most {MOST_CALLS} calls and {MOST_BYTES} bytes allowed"
        )
    CapturedCall.objects.create(
        session=held, key=call.key, number=held.calls, content=content, at=now
    )
    CaptureSession.objects.filter(pk=held.pk).update(
        calls=F("calls") + 1, size_bytes=F("size_bytes") + len(content), changed_at=now
    )
    return held.calls, True


def check_call(call: CallPush) -> None:
    """Validate a captured call.

    Raises:
        InvalidCapture: If it is inconsistent; names the field.
    """
    if call.gap and call.answers:
        raise InvalidCapture("gap", "a call with a gap must have no answers")
    if not call.gap and not (call.answers and call.prompt_tokens):
        raise InvalidCapture("prompt_tokens", "a call without a gap must have a prompt and answers")
    if call.repair is not None:
        start, stop, length = call.repair.start, call.repair.stop, len(call.prompt_tokens)
        if not start <= stop <= length:
            problem = f"tokens {start} to {stop} are not a part of the {length} prompt tokens"
            raise InvalidCapture("repair", problem)
    for place, answer in enumerate(call.answers):
        field, length = f"answers[{place}]", len(answer.tokens)
        if len(answer.logprobs) != length:
            problem = f"has {len(answer.logprobs)} entries for {length} tokens"
            raise InvalidCapture(f"{field}.logprobs", problem)
        if answer.versions and sum(one.tokens for one in answer.versions) != length:
            raise InvalidCapture(f"{field}.versions", f"must sum to {length} tokens")


@transaction.atomic
def score_sessions(
    *,
    run: Run,
    scores: Mapping[str, float | None],
    producer: str,
    now: datetime,
    env_id: int | None = None,
) -> ScoreReceipt:
    """Form one group from sessions, all or none; idempotent for the same scores.

    Args:
        run: The run of the sessions.
        scores: Scores by session name; None for a session without a score.
        producer: Identity of the requester.
        now: Time of the request.
        env_id: Registered environment that the group belongs to.

    Raises:
        CaptureNotFound: If a session does not exist.
        SessionOver: If a session has another score or has expired.
        NothingCaptured: If no session contains a token of the policy.
        InvalidCapture: If the sequences do not form a group that the run accepts, or the run
            refuses sessions without a score.
        RunNotAccepting: If the run accepts no groups.
        UnknownEnvironment: If the run has no such environment.
    """
    check_kind(run, ItemKind.GROUPS)
    check_accepts(run)
    unscored = [name for name, score in scores.items() if score is None]
    if unscored and run.unscored_sequences == UnscoredSequences.REFUSE:
        problem = "null needs `unscored_sequences` drop or shrink of the run"
        raise InvalidCapture(f"scores.{unscored[0]}", problem)
    # Locked by id to avoid deadlocks.
    rows = CaptureSession.objects.select_for_update().filter(run=run, name__in=list(scores))
    by_name = {one.name: one for one in rows.order_by("pk")}
    for name in scores:
        if name not in by_name:
            raise CaptureNotFound(name, field=f"scores.{name}")
    found = [by_name[name] for name in scores]
    if all(one.state == CaptureState.SCORED and one.score == scores[one.name] for one in found):
        receipts = [one.receipt for one in found]
        if all(receipt == receipts[0] for receipt in receipts):
            return msgspec.convert(receipts[0], ScoreReceipt)
    for one in found:
        if one.state != CaptureState.OPEN:
            raise SessionOver(f"session {one.name!r} is {one.state} and cannot be scored again")
    scored = [_assembled(one, score) for one in found if (score := scores[one.name]) is not None]
    if scored:
        group = _group(run, scored, env_id=env_id, unscored=len(unscored))
    else:
        group = unscored_group(env_id=env_id, sequences=len(unscored))
    (receipt,) = accept_groups(run=run, groups=[group], producer=producer, now=now)
    answer = ScoreReceipt(
        sequences=sum(len(one.assembled.sequences) for one in scored),
        tokens=sum(_trained(one.assembled) for one in scored),
        dropped=str(receipt.dropped or ""),
        gaps={one.session.name: one.assembled.gaps for one in scored if one.assembled.gaps},
    )
    for each in found:
        CaptureSession.objects.filter(pk=each.pk).update(
            state=CaptureState.SCORED,
            score=scores[each.name],
            receipt=msgspec.to_builtins(answer),
            changed_at=now,
        )
    return answer


def assembled(session: CaptureSession) -> Assembled:
    """Return the sequences and gaps of a session."""
    return _assembled(session, 0.0).assembled


def delete_old_captures(*, now: datetime) -> int:
    """Expire unscored sessions and delete old calls; return the number of expired sessions.

    Groups keep the tokens of scored sessions.
    """
    due = now - timedelta(seconds=settings.ROLLDECK_CAPTURE_SECONDS)
    expired = 0
    old = CaptureSession.objects.filter(changed_at__lt=due)
    for one in old.filter(state=CaptureState.OPEN).select_related("run")[:1000]:
        with transaction.atomic():
            changed = CaptureSession.objects.filter(
                pk=one.pk, state=CaptureState.OPEN, changed_at__lt=due
            ).update(state=CaptureState.EXPIRED)
            if changed:
                record_event(
                    run_id=one.run_id,
                    kind="capture_expired",
                    level="warning",
                    actor="platform",
                    message=f"Session {one.name} expired unscored with {one.calls} calls",
                    now=now,
                )
        expired += changed
    CapturedCall.objects.filter(session__in=old.exclude(state=CaptureState.OPEN)).delete()
    return expired


def _assembled(session: CaptureSession, score: float) -> _Scored:
    rows = CapturedCall.objects.filter(session=session).order_by("number")
    contents = rows.values_list("content", flat=True)
    calls = [msgspec.msgpack.decode(content, type=CallPush) for content in contents]
    return _Scored(session, score, calls, assemble(calls))


def _trained(assembled: Assembled) -> int:
    return sum(mask >= 0 for sequence in assembled.sequences for mask in sequence.masks)


def _group(run: Run, scored: list[_Scored], *, env_id: int | None, unscored: int) -> Group:
    """Return the group of sessions, in Atropos' JSON; `unscored` others have no score.

    Raises:
        NothingCaptured: If no session contains a token of the policy.
        InvalidCapture: If the run refuses it.
    """
    rows = []
    for one in scored:
        for sequence in one.assembled.sequences:
            # The conversation up to the last answer; empty for completions.
            number, index = sequence.answers[-1]
            call = one.calls[number]
            message = call.answers[index].message
            messages = [*call.messages, *([] if message is None else [message])]
            rows.append((one, sequence, messages))
    if not any(_trained(one.assembled) for one in scored):
        gaps = [f"{one.session.name}: {gap}" for one in scored for gap in one.assembled.gaps]
        raise NothingCaptured("; ".join(gaps[:5]) or "the sessions have no calls")
    content: dict[str, Any] = {
        "tokens": [sequence.tokens for _, sequence, _ in rows],
        "masks": [sequence.masks for _, sequence, _ in rows],
        "scores": [one.score for one, _, _ in rows],
        "inference_logprobs": [sequence.logprobs for _, sequence, _ in rows],
        "messages": [messages for _, _, messages in rows],
        "overrides": [{"session": one.session.name} for one, _, _ in rows],
        "group_overrides": {
            "captured": {one.session.name: one.assembled.gaps for one in scored},
            "repairs": {one.session.name: one.assembled.repairs for one in scored},
        },
    }
    content |= _advantages(run.advantages, [one for one in scored if one.assembled.sequences])
    versions = [one.assembled.oldest for one in scored if one.assembled.sequences]
    known = [version for version in versions if version is not None]
    if known and len(known) == len(versions):
        content["epoch"], content["policy_step"] = min(known)
    if env_id is not None:
        content["env_id"] = env_id
    try:
        group = decode_group(msgspec.json.encode(content), **decoding_options(run))
    except InvalidBody as error:
        raise InvalidCapture("scores", str(error)) from error
    if unscored:
        lengths = [len(sequence.tokens) for _, sequence, _ in rows]
        short = ShortRollouts(unscored, [one.score for one, _, _ in rows], lengths)
        group = msgspec.structs.replace(group, short=short)
    return group


def _advantages(rule: str, scored: list[_Scored]) -> dict[str, list[list[float]]]:
    """Return the advantages of all tokens: a session counts once, however many sequences it has."""
    if not rule:
        return {}
    found = RULES[rule](np.array([one.score for one in scored], dtype=np.float64))
    if not np.isfinite(found).all():
        return {}
    rows = [
        [float(advantage)] * len(sequence.tokens)
        for one, advantage in zip(scored, found, strict=True)
        for sequence in one.assembled.sequences
    ]
    return {"advantages": rows}
