"""Samples of lists: groups and fragments with their texts, marks and causes in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from buffer.inspect.queries.fragment_lists import FragmentPage
from buffer.inspect.queries.group_contents import marks_of, with_digests
from buffer.inspect.schemas import GroupRow, SampleRow
from buffer.items.rules.states import DROP_CAUSES
from runs.lifecycle.models import Run
from web.rules.amounts import finite_or_none


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRun:
    """A run of a list of samples."""

    id: int
    uid: str
    address: str
    project: str | None

    @classmethod
    def of(cls, run: Run) -> "SampledRun":
        """Return a run with its address, which has the id once it is archived."""
        return cls(
            id=run.pk,
            uid=run.uid,
            address=run.address,
            project=None if run.project is None else run.project.name,
        )


def group_samples(
    runs: Mapping[int, SampledRun], rows: Sequence[GroupRow], columns: Sequence[str] = ()
) -> list[SampleRow]:
    """Return groups in their form in lists, with facts as further columns.

    Those that are not digested yet are digested.
    """
    marks = marks_of([row.id for row in rows])
    return [
        SampleRow(
            kind="group",
            id=str(row.id),
            run=runs[row.run_id].address,
            run_uid=runs[row.run_id].uid,
            project=runs[row.run_id].project,
            environment=row.environment,
            lesson=row.lesson,
            score=_finite(row.score_mean),
            score_min=_finite(row.score_min),
            score_max=_finite(row.score_max),
            scores=[_finite(score) for score in row.scores],
            sequences=row.sequences,
            correct=row.correct,
            advantages=row.advantages,
            columns=_facts(row, columns),
            length=row.longest_tokens,
            worker=row.worker or row.producer,
            epoch=row.epoch,
            policy_step=row.policy_step,
            step=row.step,
            state=row.state,
            why=DROP_CAUSES.get(row.drop_reason, ""),
            flags=row.flags,
            at=row.received_at,
            excerpt=row.excerpt,
            answer=row.answer,
            is_indexed=row.is_digested or not row.has_bytes,
            mark=marks.get(row.id),
        )
        for row in with_digests(rows)
    ]


def _facts(row: GroupRow, columns: Sequence[str]) -> dict[str, Any]:
    facts = msgspec.json.decode(row.facts) if columns else {}
    return {column: facts.get(column) for column in columns}


def fragment_samples(runs: Mapping[int, SampledRun], page: FragmentPage) -> list[SampleRow]:
    """Return fragments in their form in lists."""
    return [
        SampleRow(
            kind="fragment",
            id=str(row.id),
            run=runs[run_id].address,
            run_uid=runs[run_id].uid,
            project=runs[run_id].project,
            environment=row.environment,
            score=_finite(page.rewards.get(row.id)),
            length=row.steps,
            worker=row.worker,
            epoch=row.epoch,
            policy_step=row.version_max,
            step=row.step,
            state=row.state,
            why=DROP_CAUSES.get(row.drop_reason, ""),
            at=row.received_at,
            slot=row.slot,
            number=row.number,
        )
        for run_id, row in zip(page.runs, page.rows, strict=True)
    ]


def _finite(value: float | None) -> float | None:
    return None if value is None else finite_or_none(value)
