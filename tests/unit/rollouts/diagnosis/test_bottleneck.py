"""The diagnosis names the bottleneck stage, with the numbers that prove it."""

from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.diagnosis.rules.causes import diagnose as causes_of
from rollouts.diagnosis.rules.diagnosis import LONG_SECONDS, SELDOM, Diagnosis
from rollouts.diagnosis.rules.flow import STAGES, Facts, SlowestWorker, stages
from rollouts.diagnosis.rules.pace import gain_of_a_worker

BUSY = {"env_step": 0.58, "recv": 0.05, "act": 0.03, "infer": 0.24, "cut": 0.02, "send": 0.01}
# A CartPole run with two workers: means over a minute.
CARTPOLE = {
    "recv": 0.051,
    "infer": 0.102,
    "act": 0.036,
    "env_step": 0.037,
    "cut": 0.015,
    "enqueue": 0.002,
    "send": 0.078,
}
HELD_BACK = CARTPOLE | {"waiting_room": 0.51}


def facts(**known: Any) -> Facts:
    """Return the measurements of a fleet of four workers whose trainer waits half of its time."""
    values: dict[str, Any] = {
        "kind": "fleet",
        "status": "running",
        "unit": "fragments",
        "workers": 4,
        "shares": BUSY,
        "work_per_second": 480.0,
        "arriving": 15.0,
        "handed_out": 15.0,
        "batches_per_second": 1.875,
        "queued": 4,
        "pause_above": 24.0,
        "batch_size": 8,
        "trainer_waits": 0.6,
        "train_seconds": 0.2,
        "delivery_seconds": 0.01,
        "version": 3,
        "version_age_seconds": 2.0,
        "workers_wanted": 4,
    }
    return Facts(**values | known)


def diagnose(of: Facts, *, previous: Collection[str] = ()) -> Diagnosis:
    """Return the most harmful cause."""
    return causes_of(of, previous=previous)[0]


def outside(**known: Any) -> Facts:
    return facts(**{"kind": "outside", "unit": "sequences", "workers": 0, "shares": {}} | known)


@pytest.mark.parametrize(
    ("known", "stage", "says"),
    [
        ({}, "step", "Stepping environments is the bottleneck: 58 %"),
        (
            {"shares": {"recv": 0.3, "act": 0.2, "env_step": 0.1, "infer": 0.2}},
            "exchange",
            "Exchanging observations and actions with environments is the bottleneck: 50 %",
        ),
        ({"shares": {"infer": 0.7, "env_step": 0.2}}, "infer", "inference is the bottleneck: 70 %"),
        (
            {"shares": {"send": 0.6, "cut": 0.1}},
            "push",
            "Cutting and sending fragments is the bottleneck: 70 %",
        ),
        ({"trainer_waits": 0.35}, "step", "is the slowest part"),
        ({"trainer_waits": 0.04}, "train", "The trainer is the bottleneck: it is busy 96 %"),
        (
            {"trainer_waits": 0.0, "holding_seconds": 2100.0, "since_lease_seconds": 2100.0},
            "train",
            "The trainer has held one batch for 35 min",
        ),
        (
            {"trainer_waits": 0.0, "holding_seconds": 40.0, "since_lease_seconds": 40.0},
            "train",
            "is busy 100 %",
        ),
        (
            {"shares": {"waiting_weights": 0.9}, "workers_without_weights": 4},
            "infer",
            "workers have not received them",
        ),
        ({"shares": {"waiting_weights": 0.9}}, "infer", "Workers wait for new weights 90 %"),
        ({"stale_share": 0.4}, "queue", "40 % of the newest data was dropped as stale"),
        (
            {"shares": {"waiting_weights": 0.9}, "trainer_waits": None, "version": None},
            "train",
            "No trainer has published weights yet",
        ),
        ({"shares": {"waiting_room": 0.5, "infer": 0.4}}, "queue", "take turns"),
        ({"queued": 16}, "batch", "The trainer waits although complete batches are queued"),
        ({"delivery_seconds": 0.3}, "batch", "in transit to the trainer 56 %"),
        ({"trainer_waits": None, "queued": 9}, "train", "No trainer leases the queued batches"),
        ({"trainer_waits": None}, "queue", "The next batch is filling: 4 of 8 fragments"),
        ({"trainer_waits": None, "batch_size": None}, "train", "The run has no batch size"),
        ({"status": "paused"}, None, "The run is paused"),
        ({"shares": {}, "arriving": None, "trainer_waits": None, "queued": 0}, None, "No activity"),
    ],
)
def test_a_fleet_is_diagnosed_by_both_sides_of_its_queue(
    known: dict[str, Any], stage: str | None, says: str
) -> None:
    diagnosis = diagnose(facts(**known))

    assert diagnosis.stage == stage
    assert says in diagnosis.summary


def test_the_evidence_has_the_rates_and_the_gain_of_another_worker() -> None:
    diagnosis = diagnose(facts())

    assert "15 fragments arrive per second" in diagnosis.evidence
    assert "the trainer could consume about 37.5 per second" in diagnosis.evidence
    assert "workers' time: step 58 %, exchange 8 %, infer 24 %, push 3 %" in diagnosis.evidence
    assert "one more than the present 4 workers would give about +25 %" in diagnosis.change


def test_a_saturated_trainer_gets_the_number_of_workers_that_suffices() -> None:
    held = {"waiting_room": 0.6, "env_step": 0.3}
    diagnosis = diagnose(facts(trainer_waits=0.02, shares=held, max_staleness=1))
    waiting = diagnose(facts(trainer_waits=0.15, shares=held, max_staleness=1))

    assert "the staleness limit (max_staleness 1) pauses workers 60 % of their time" in (
        diagnosis.evidence
    )
    assert "2 of the 4 workers would suffice" in diagnosis.change
    assert "would suffice" not in waiting.change


def test_the_slowest_stage_is_the_one_with_most_time_in_the_spans_of_the_page() -> None:
    """A step took 3.98 ms: 2.31 of inference, 0.16 in the environment, the rest exchange."""
    shares = {"env_step": 0.05, "recv": 0.12, "act": 0.1, "infer": 0.25, "send": 0.12}
    diagnosis = diagnose(facts(workers=2, trainer_waits=0.3, shares=shares))
    shown = {stage.name: stage.share for stage in stages(facts(shares=shares))}

    assert diagnosis.stage == "infer"
    assert "inference is the slowest part: 25 %" in diagnosis.summary
    assert shown["step"] == shares["env_step"]
    assert shown["exchange"] == pytest.approx(0.22)
    assert shown["infer"] == shares["infer"]


def test_sending_is_a_bottleneck_only_when_always_busy() -> None:
    assert diagnose(facts(shares={"send": 0.5, "infer": 0.3})).stage == "infer"
    assert diagnose(facts(shares={"send": 0.95, "infer": 0.8})).stage == "push"


@pytest.mark.parametrize("waits", [0.22, 0.25, 0.29])
def test_workers_held_back_by_the_staleness_limit_are_no_bottleneck(waits: float) -> None:
    diagnosis = diagnose(
        facts(workers=2, trainer_waits=waits, shares=HELD_BACK, max_staleness=1, queued=0)
    )

    assert diagnosis.stage == "queue"
    assert "take turns" in diagnosis.summary
    assert "the staleness limit (max_staleness 1) pauses workers 51 % of their time" in (
        diagnosis.evidence
    )
    assert diagnosis.change.startswith("Raise max_staleness by 1")
    assert "Add workers" not in diagnosis.change


@pytest.mark.parametrize(
    ("known", "says"),
    [
        ({"max_staleness": 1}, "The staleness limit (max_staleness 1) pauses workers."),
        ({"max_staleness": None}, "The off-policy tolerance pauses workers."),
    ],
)
def test_an_empty_queue_is_never_called_full(known: dict[str, Any], says: str) -> None:
    common = {"queued": 0, "pause_above": 48.0, "trainer_waits": 0.1, "shares": HELD_BACK}
    diagnosis = diagnose(facts(**common, **known, is_limited=True))

    assert says in diagnosis.summary
    assert "full" not in diagnosis.summary


def test_an_outside_run_is_diagnosed_by_its_server_data() -> None:
    waiting = diagnose(outside(trainer_waits=0.8))
    training = diagnose(outside(trainer_waits=0.1))

    assert (waiting.stage, training.stage) == ("push", "train")
    assert waiting.summary.startswith("The environments are the bottleneck")
    assert "not visible to the server" in waiting.change
    assert [stage.name for stage in stages(outside())] == ["push", "queue", "batch", "train"]


def test_an_outside_run_whose_queue_pauses_its_environments_needs_no_more_of_them() -> None:
    # A stock trainer acknowledges a batch before training, and so appears to wait.
    diagnosis = diagnose(outside(queued=104, pause_above=96.0, is_full=True, trainer_waits=0.9))

    assert (diagnosis.stage, diagnosis.summary) == (
        "train",
        "Environments are paused: they push faster than the trainer consumes.",
    )
    assert diagnosis.evidence == ["104 sequences are queued, environments pause above 96"]
    assert "more environments" not in diagnosis.change


def test_another_worker_adds_no_more_than_the_trainer_consumes() -> None:
    assert gain_of_a_worker(facts(workers=1, trainer_waits=0.2)) == pytest.approx(0.25)
    assert gain_of_a_worker(facts(workers=10, trainer_waits=1.0)) == pytest.approx(0.1)
    assert gain_of_a_worker(facts(workers=0)) is None
    assert gain_of_a_worker(facts(trainer_waits=None)) is None
    assert gain_of_a_worker(facts(shares=HELD_BACK)) is None


def test_stages_have_rate_busy_share_and_queue() -> None:
    stages_by_name = {stage.name: stage for stage in stages(facts(age_seconds=0.3, to_send=2))}

    assert tuple(stages_by_name) == STAGES
    assert (stages_by_name["step"].rate, stages_by_name["step"].unit) == (480.0, "env steps")
    assert stages_by_name["step"].share == 0.58
    assert stages_by_name["exchange"].share == pytest.approx(0.08)
    assert (stages_by_name["push"].rate, stages_by_name["push"].held) == (15.0, 2)
    assert (stages_by_name["queue"].held, stages_by_name["queue"].seconds) == (
        4,
        pytest.approx(4 / 15),
    )
    assert stages_by_name["batch"].share == pytest.approx(0.01875)
    assert (stages_by_name["train"].waits, stages_by_name["train"].waits_for) == (0.6, "data")


def test_a_language_fleet_has_a_generation_stage_and_no_env_stage() -> None:
    names = [stage.name for stage in stages(facts(kind="language", unit="sequences"))]

    assert names == ["infer", "push", "queue", "batch", "train"]


@pytest.mark.parametrize(("per_second", "seconds"), [(4.0, 3.0), (None, None), (0.0, None)])
def test_the_stay_in_the_queue_without_departures_is_unknown(
    per_second: float | None, seconds: float | None
) -> None:
    by_name = {stage.name: stage for stage in stages(facts(queued=12, handed_out=per_second))}

    assert by_name["queue"].seconds == seconds


shares = st.dictionaries(
    st.sampled_from(
        [
            *("recv", "infer", "act", "env_step", "cut", "enqueue", "send"),
            *("waiting_room", "waiting_weights", "a stage of tomorrow"),
        ]
    ),
    st.floats(0, 1),
)
part = st.none() | st.floats(0, 1)
rate = st.none() | st.floats(0, 1e6)


@given(
    known=st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["fleet", "language", "outside"]),
            "status": st.sampled_from(["draft", "running", "paused", "draining", "failed"]),
            "workers": st.integers(0, 1000),
            "shares": shares,
            "arriving": rate,
            "handed_out": rate,
            "batches_per_second": rate,
            "queued": st.integers(0, 10**9),
            "pause_above": rate,
            "batch_size": st.none() | st.integers(1, 10**6),
            "trainer_waits": part,
            "train_seconds": rate,
            "holding_seconds": rate,
            "delivery_seconds": rate,
        }
    )
)
def test_every_diagnosis_has_one_sentence_and_valid_shares(known: dict[str, Any]) -> None:
    of = facts(**known)
    diagnosis: Diagnosis = diagnose(of)
    seen = stages(of)

    assert diagnosis.summary.endswith(".")
    assert "nan" not in " ".join([diagnosis.summary, diagnosis.change, *diagnosis.evidence])
    assert diagnosis.stage is None or diagnosis.stage in [stage.name for stage in seen]
    assert all(0 <= share <= 1 for stage in seen for share in (stage.share, stage.waits) if share)
    if diagnosis.stage == "train" and (of.trainer_waits or 0) > SELDOM:
        # One trainer may hold a batch for long while another waits, and may publish nothing.
        is_stuck = (of.holding_seconds or 0) >= LONG_SECONDS
        lacks_weights = of.shares.get("waiting_weights", 0) >= 0.5
        assert lacks_weights or is_stuck or "stale" in diagnosis.summary


@pytest.mark.parametrize("wait", ["waiting_room", "waiting_weights"])
def test_stage_of_the_workers_is_not_the_bottleneck_while_they_wait(wait: str) -> None:
    diagnosis = diagnose(
        facts(shares={wait: 0.95, "env_step": 0.03}), previous={"producers_slow:step"}
    )

    assert diagnosis.kind == {"waiting_room": "staleness_limit"}.get(wait, "weights_late")


@pytest.mark.parametrize(
    ("held", "train_seconds", "kind"),
    [
        (70.0, None, "training_stalled"),
        (70.0, 65.0, "trainer_slow"),
        (140.0, 65.0, "training_stalled"),
    ],
)
def test_trainer_is_stuck_after_twice_its_usual_step(
    held: float, train_seconds: float | None, kind: str
) -> None:
    known = {"holding_seconds": held, "since_lease_seconds": held, "trainer_waits": 0.0}

    assert diagnose(facts(train_seconds=train_seconds, **known)).kind == kind


def test_trainer_is_not_stuck_while_another_leases_batches() -> None:
    known = facts(trainer_waits=0.1, holding_seconds=500.0, since_lease_seconds=1.0)

    assert diagnose(known).kind == "trainer_slow"


def test_weights_are_overdue_after_twice_the_last_interval() -> None:
    held = {
        "shares": {"waiting_room": 0.9},
        "queued": 2,
        "trainer_waits": 0.1,
        "version_age_seconds": 100.0,
        "holding_seconds": None,
    }

    assert diagnose(facts(**held)).kind == "weights_late"
    assert diagnose(facts(version_interval_seconds=60.0, **held)).kind == "trainer_slow"


def test_stale_data_names_the_limits_that_are_set() -> None:
    diagnosis = diagnose(facts(stale_share=0.5, max_staleness=1, max_age_seconds=30.0))

    assert diagnosis.evidence[0] == "the limit is max_staleness 1 and max_age_seconds 30"


def test_crashing_workers_are_the_diagnosis_although_others_work() -> None:
    reason = "Worker 1 is lost, respawning in 4.0 s: MemoryError"
    diagnosis = diagnose(facts(crashes=3, crash_reason=reason, workers=3))

    assert (diagnosis.kind, diagnosis.summary) == (
        "workers_down",
        "Workers crashed 3 times in 5 min.",
    )
    assert diagnosis.evidence == [reason, "1 of 4 workers are not running"]
    assert diagnose(facts(crashes=2)).kind == "producers_slow"


def test_one_slow_worker_is_named_with_the_rate_of_the_others() -> None:
    slowest = SlowestWorker(index=2, rate=12.5, median_of_others=60.0)
    diagnosis = diagnose(facts(slowest_worker=slowest))

    assert diagnosis.summary == (
        "Worker 2 is slow: 12.5 env steps per second, the other workers make 60."
    )
    assert diagnose(facts(slowest_worker=slowest, trainer_waits=0.1)).kind == "trainer_slow"


def test_inference_server_that_does_not_answer_precedes_the_crashes_it_causes() -> None:
    known = {"crashes": 5, "inference_failures": 7, "inference_error": "POST /v1: refused"}
    diagnosis = diagnose(facts(kind="language", unit="sequences", workers=0, **known))

    assert (diagnosis.kind, diagnosis.stage) == ("workers_down", "infer")
    assert diagnosis.summary == "Generation failed 7 times in the last 2 min."
    assert diagnosis.evidence == ["POST /v1: refused"]


def test_running_workers_that_cannot_sample_are_named_with_their_reason() -> None:
    diagnosis = diagnose(facts(workers_blocked=1, block_reason="weights do not fit"))

    assert (diagnosis.kind, diagnosis.evidence) == ("workers_down", ["weights do not fit"])
    assert diagnosis.summary == "1 of 4 workers cannot sample."
