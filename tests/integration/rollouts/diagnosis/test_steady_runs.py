"""The diagnosis of a run in a steady state changes at most once a minute, at any pace."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import pytest

from buffer.items.models import Batch, FragmentChunk
from rollouts.control.models import FleetWorker
from rollouts.diagnosis.queries.pipelines import diagnosis_of
from rollouts.diagnosis.services import record_diagnosis
from rollouts.fleet.process.spans import PipelineMonitor
from runs.lifecycle.models import Trainer
from tests.factories import make_settled_run
from tests.integration.rollouts.diagnosis.test_pipelines import NOON, arrive, at, publish, work

EVALUATED_EVERY_SECONDS = 10
MINUTES = 8
BATCH = 8
# Cycles of the trainer, in seconds: within the window, near it, and far beyond.
CYCLES = (5, 65, 90, 200)
pytestmark = pytest.mark.django_db


class SteadyRun:
    """Run in which trainer and workers repeat one cycle.

    Shares are parts of the cycle. The trainer trains from its beginning; the workers sample from
    its beginning, in the spans of `spans`, then wait for `waits_for`.
    """

    def __init__(
        self,
        *,
        cycle_seconds: int,
        trains: float,
        spans: Mapping[str, float],
        waits_for: Literal["room", "weights"] = "room",
        queued: int = 4,
    ) -> None:
        self.cycle_seconds, self.trains = cycle_seconds, trains
        self.spans, self.waits_for = spans, waits_for
        self.run = make_settled_run(batch_size=BATCH)
        work(self.run, workers=2)
        arrive(self.run, count=queued, since=-1, interval_seconds=0)
        self.trainer = Trainer.objects.create(
            run=self.run, uuid=1, identity="t", epoch=1, registered_at=NOON, last_seen_at=NOON
        )
        self.monitor = PipelineMonitor(now=0.0)
        self.steps = 0
        self.second = 0

    def advance(self, seconds: int) -> None:
        """Continue the run, second by second."""
        for second in range(self.second, self.second + seconds):
            self._sample(second)
            while self.steps * self.cycle_seconds <= second:
                self._lease(self.steps * self.cycle_seconds)
            shares = self.monitor.shares(float(second + 1))
        self.second += seconds
        for batch in Batch.objects.filter(run=self.run, state="leased"):
            ends = (batch.ordinal - 1 + self.trains) * self.cycle_seconds
            if ends <= self.second:
                Batch.objects.filter(pk=batch.pk).update(state="confirmed", settled_at=at(ends))
                publish(self.run, step=batch.ordinal, published=ends)
        FleetWorker.objects.filter(fleet__run=self.run).update(
            heartbeat_at=at(self.second), shares=shares, active_step=self.steps
        )
        self.run.fleet.observed_at = self.run.fleet.heard_at = at(self.second)
        self.run.fleet.save()
        FragmentChunk.objects.filter(run=self.run).update(received_at=at(self.second - 1))

    def _sample(self, second: int) -> None:
        works = sum(self.spans.values())
        remaining = works * self.cycle_seconds - second % self.cycle_seconds
        busy = min(1.0, max(0.0, remaining))
        for span, share in self.spans.items():
            self.monitor.record(span, busy * share / works, float(second))
        self.monitor.wait(1.0 - busy, wants=self.waits_for)

    def _lease(self, second: float) -> None:
        self.steps += 1
        Batch.objects.create(
            run=self.run,
            trainer=self.trainer,
            kind="fragments",
            ordinal=self.steps,
            state="leased",
            epoch=1,
            policy_step=0,
            leased_at=at(second),
            lease_expires_at=at(second + 3600),
            delivered_at=at(second),
            items=BATCH,
            sequences=BATCH,
            size_bytes=10,
            composition={},
            staleness={},
        )

    def kinds(self) -> Iterator[str]:
        """Evaluate the run like the platform, after two cycles."""
        self.advance(2 * self.cycle_seconds + 60)
        for _ in range(60 * MINUTES // EVALUATED_EVERY_SECONDS):
            now = at(self.second)
            record_diagnosis(self.run, now=now)
            diagnosis = diagnosis_of(self.run.pk, now=now)
            yield f"{diagnosis.kind}:{diagnosis.stage}"
            self.advance(EVALUATED_EVERY_SECONDS)


STATES: dict[str, dict[str, Any]] = {
    "trainer_slow:train": {"trains": 0.97, "spans": {"env_step": 0.4}, "queued": 20},
    "producers_slow:step": {"trains": 0.2, "spans": {"env_step": 0.8, "infer": 0.2}},
    "producers_slow:infer": {"trains": 0.2, "spans": {"infer": 0.55, "env_step": 0.45}},
    "staleness_limit:queue": {"trains": 0.5, "spans": {"env_step": 0.5}},
    "weights_late:infer": {"trains": 0.5, "spans": {"env_step": 0.5}, "waits_for": "weights"},
}


@pytest.mark.parametrize("cycle_seconds", CYCLES)
@pytest.mark.parametrize("kind", STATES)
def test_diagnosis_of_a_steady_run_changes_at_most_once_a_minute(
    kind: str, cycle_seconds: int
) -> None:
    steady = SteadyRun(cycle_seconds=cycle_seconds, **STATES[kind])

    kinds = list(steady.kinds())

    changes = sum(one != other for one, other in itertools.pairwise(kinds))
    assert changes <= MINUTES
    assert kinds.count(kind) > len(kinds) / 2
