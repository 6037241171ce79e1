"""Every situation of a run has a diagnosis with a correct summary and a remedy."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.diagnosis.rules.causes import diagnose
from rollouts.diagnosis.rules.diagnosis import LATE_SECONDS, LONG_SECONDS, SELDOM, Diagnosis
from rollouts.diagnosis.rules.flow import STAGES, Facts

BUSY = {"env_step": 0.6, "infer": 0.3}
HELD = {"waiting_room": 0.9, "env_step": 0.05}

FLEET: dict[str, Any] = {
    "kind": "fleet",
    "status": "running",
    "unit": "fragments",
    "workers": 4,
    "workers_wanted": 4,
    "shares": BUSY,
    "work_per_second": 480.0,
    "arriving": 15.0,
    "handed_out": 15.0,
    "batches_per_second": 1.9,
    "queued": 4,
    "pause_above": 24.0,
    "batch_size": 8,
    "trainer_waits": 0.6,
    "version": 12,
    "version_age_seconds": 1.0,
    "max_staleness": 2,
}
OUTSIDE = FLEET | {"kind": "outside", "unit": "sequences", "workers": 0, "shares": {}}
LANGUAGE = FLEET | {"kind": "language", "unit": "sequences"}
ASKING = "traj_0 asks for its status, but has pushed nothing for 75 s"
LOST = {
    "run": "lab",
    "env_slots": 8,
    "slots_lost": 28,
    "slots_given_up": 4,
    "env_errors": ["module:lab:Maze: KeyError: 'goal' (28 times)"],
}
UNTAKEN = {"trainer_waits": None, "handed_out": None, "batches_per_second": None}
GONE = {"workers": 0, "shares": {}, "work_per_second": None}

SITUATIONS: dict[str, tuple[dict[str, Any], str, str]] = {
    "no trainer": (
        FLEET | UNTAKEN | {"queued": 9},
        "No trainer leases the queued batches.",
        "Start the trainer",
    ),
    "no trainer, and workers are held back": (
        FLEET | UNTAKEN | {"queued": 24, "shares": HELD, "is_limited": True},
        (
            "No trainer leases the queued batches. The staleness limit (max_staleness 2) pauses "
            "workers."
        ),
        "The workers then resume automatically.",
    ),
    "the jobs do not run": (
        FLEET
        | GONE
        | {"status": "queued", "fleet": "none", "jobs_problem": "no heartbeats from the scheduler"},
        "The server's background jobs do not run: no heartbeats from the scheduler.",
        "Start the jobs and the scheduler",
    ),
    "the jobs do not run, so a silent fleet is not launched again": (
        FLEET | GONE | {"fleet": "unknown", "jobs_problem": "no heartbeats from the scheduler"},
        "The server's background jobs do not run: no heartbeats from the scheduler.",
        "Until then no fleet starts or restarts",
    ),
    "the trainer is slower": (
        FLEET | {"trainer_waits": 0.02, "queued": 20},
        "The trainer is the bottleneck: it is busy 98 % of the time.",
        "Make train steps faster",
    ),
    "the trainer is slower, and workers pause for it": (
        FLEET | {"trainer_waits": 0.02, "queued": 24, "shares": HELD, "is_limited": True},
        (
            "The trainer is the bottleneck: it is busy 98 % of the time. "
            "The staleness limit (max_staleness 2) pauses workers."
        ),
        "1 of the 4 workers would suffice",
    ),
    "workers are slower": (
        FLEET,
        (
            "Stepping environments is the bottleneck: 60 % of the workers' time, while the trainer "
            "waits 60 % of its time."
        ),
        "Add workers",
    ),
    "paused by a person": (
        FLEET | {"status": "paused", "reason": "lunch"},
        "The run is paused: no data is generated, and queued data is still served.",
        "Resume the run",
    ),
    "stale weights: the trainer publishes none": (
        FLEET
        | UNTAKEN
        | {"shares": HELD, "queued": 2, "arriving": None, "version_age_seconds": 300.0},
        (
            "No weights were published for 5 min, and the staleness limit "
            "(max_staleness 2) pauses the workers until the next version."
        ),
        "Publish weights",
    ),
    "stale weights: they do not reach a worker": (
        FLEET | {"versions_behind": 5, "behind_seconds": 45.0},
        "The slowest worker is 5 versions behind the newest published weights.",
        "Open Weights",
    ),
    "the fleet is starting": (
        FLEET | GONE | {"status": "starting", "fleet": "starting", "workers_coming": 4},
        "The fleet is starting: 0 of 4 workers run.",
        "Wait for the workers to start",
    ),
    "the fleet cannot start": (
        FLEET | GONE | {"status": "starting", "fleet": "none", "fleet_reason": "no node has a GPU"},
        "The fleet cannot start yet.",
        "the platform retries automatically",
    ),
    "the fleet is silent": (
        FLEET | GONE | {"fleet": "unknown", "silent_seconds": 40.0},
        "No reports from the fleet for 40 s: its state is unknown.",
        "launches a new one",
    ),
    "all workers are down": (
        FLEET | GONE | {"workers_down": 3, "workers_coming": 1},
        "No worker of the fleet is running.",
        "Fleet shows why",
    ),
    "no weights yet": (
        FLEET | UNTAKEN | {"shares": {"waiting_weights": 0.97}, "version": None, "queued": 0},
        "No trainer has published weights yet, so workers cannot act.",
        "Start the trainer",
    ),
    "draining": (
        FLEET | {"status": "draining"},
        "The run is draining: open episodes finish, and queued data is served.",
        "the run ends automatically",
    ),
    "draining without a trainer": (
        FLEET | UNTAKEN | {"status": "draining", "queued": 16},
        "No trainer leases the queued batches.",
        "Start the trainer",
    ),
    "nothing runs yet": (
        FLEET | GONE | {"status": "draft"},
        "The run is a draft and processes no data.",
        "Start it",
    ),
    "it has failed": (
        FLEET | GONE | {"status": "failed", "reason": "10 launches within 10 min"},
        "The run has failed and processes no data.",
        "start it again",
    ),
    "nothing moves": (
        OUTSIDE | UNTAKEN | {"arriving": None, "queued": 0},
        "No activity in the last minute.",
        "Start the trainer, then the environments",
    ),
    "environments ask and push nothing": (
        OUTSIDE
        | UNTAKEN
        | {"arriving": None, "queued": 0, "environments": 1, "idle_environments": [ASKING]},
        "Environments ask for their status, but push nothing.",
        "Read the log of the environment: its rollouts may fail",
    ),
    "environments push nothing more, and the trainer asks": (
        OUTSIDE
        | UNTAKEN
        | {"arriving": None, "queued": 3, "idle_environments": [ASKING], "is_asked": True},
        "Environments ask for their status, but push nothing.",
        "inference server refuses its requests",
    ),
    "the trainer asks, and there is no environment": (
        OUTSIDE | UNTAKEN | {"arriving": None, "queued": 0, "is_asked": True},
        "The trainer asks for batches, and no environment pushes data.",
        "Start the environments",
    ),
    "environments hang or raise": (
        FLEET | LOST,
        "Environments fail: env slots were lost 28 times in 2 min; given up: 4.",
        "`rolldeck run events lab --kinds slot_failed,slot_restarted --details` prints",
    ),
    "environments fail before the first step": (
        FLEET | GONE | LOST | {"status": "starting", "fleet": "starting"},
        "Environments fail: env slots were lost 28 times in 2 min; given up: 4.",
        "Fix the environment.",
    ),
    "few env slots of a large fleet fail": (
        FLEET | LOST | {"env_slots": 1000, "slots_given_up": 0},
        (
            "Stepping environments is the bottleneck: 60 % of the workers' time, while the trainer "
            "waits 60 % of its time."
        ),
        "Add workers",
    ),
    "the policy raises in the workers": (
        FLEET | {"run": "lab", "loop_crashes": 17, "loop_error": "Loop steps: ValueError: nan"},
        "Loops of the fleet crashed 17 times in 2 min.",
        "`rolldeck run events lab --kinds loop_crashed --details` prints",
    ),
    "fragments are refused": (
        FLEET | UNTAKEN | {"arriving": None, "refused": ["its workers: 971 fragments rejected"]},
        "The platform refuses fragments of the workers, and their data is lost.",
        "lower fragment_length",
    ),
    "all answers have equal rewards": (
        LANGUAGE
        | UNTAKEN
        | {"arriving": None, "groups": 968, "equal_groups": 968, "answers": 3872},
        "All 3,872 answers had equal rewards within their group, so every group was dropped.",
        "The task is too hard or too easy, or the reward is constant",
    ),
    "nearly all groups have equal rewards": (
        LANGUAGE | UNTAKEN | {"arriving": None, "groups": 968, "equal_groups": 960},
        "960 of 968 groups had equal rewards, so they were dropped.",
        "raise group_size",
    ),
    "some groups have equal rewards": (
        LANGUAGE | UNTAKEN | {"arriving": None, "groups": 968, "equal_groups": 400},
        "The next batch is filling: 4 of 8 sequences.",
        "",
    ),
    "a trainer that does not acknowledge": (
        FLEET | {"trainer_waits": 0.0, "fetched_again": (1, 6)},
        (
            "The trainer has fetched batch #1 6 times without acknowledging it, so it trains on "
            "the same data again."
        ),
        "Acknowledge each batch after training on it: `trainer.ack(batch)`",
    ),
    "a batch that was fetched twice": (
        FLEET | {"trainer_waits": 0.0, "fetched_again": (1, 2)},
        "The trainer is the bottleneck: it is busy 100 % of the time.",
        "Make train steps faster",
    ),
    "outside environments are slower": (
        OUTSIDE,
        "The environments are the bottleneck: the trainer waits 60 % of its time for data.",
        "Run more environments",
    ),
    "outside environments wait for a trainer": (
        OUTSIDE | UNTAKEN | {"queued": 30, "is_full": True},
        "No trainer leases the queued batches. The queue is full, so environments pause.",
        "The environments then resume automatically.",
    ),
    "outside environments and no trainer yet": (
        OUTSIDE | UNTAKEN | {"batch_size": None},
        "The run has no batch size, so no batch can be formed.",
        "Register a trainer with a batch size",
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_situation_is_named_with_its_remedy(name: str) -> None:
    known, summary, change = SITUATIONS[name]

    diagnosis = diagnose(Facts(**known))[0]

    assert diagnosis.summary == summary
    assert change in diagnosis.change


@pytest.mark.parametrize("name", SITUATIONS)
def test_no_situation_has_alarm_words_or_missing_numbers(name: str) -> None:
    for diagnosis in diagnose(Facts(**SITUATIONS[name][0])):
        check_words(diagnosis)


def check_words(diagnosis: Diagnosis) -> None:
    assert not {"!", "ERROR", "WARNING"} & set(diagnosis.summary.split())
    assert "!" not in diagnosis.summary + diagnosis.change
    assert "None" not in " ".join([diagnosis.summary, diagnosis.change, *diagnosis.evidence])


QUIET = {"stalled_seconds": 600.0, "data_seconds": 601.0, "lease_seconds": 601.0, "arriving": None}
WAITS = {"shares": {"waiting_weights": 0.97}, "version": None}

ALERTS: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "all is well": (FLEET, []),
    "nothing arrives": (
        OUTSIDE | UNTAKEN | QUIET | {"queued": 0},
        [("run_stalled", "RUN has received no items for more than 10 min")],
    ),
    "nothing arrives for less than the limit": (
        OUTSIDE | UNTAKEN | QUIET | {"queued": 0, "data_seconds": 599.0},
        [],
    ),
    "nothing arrives, and alerts of stalls are off": (
        OUTSIDE | UNTAKEN | QUIET | {"queued": 0, "stalled_seconds": 0.0},
        [],
    ),
    "nothing arrives while a trainer has a batch": (
        OUTSIDE | UNTAKEN | QUIET | {"queued": 0, "holding_seconds": 700.0},
        [],
    ),
    "no trainer": (
        OUTSIDE | UNTAKEN | QUIET | {"queued": 9},
        [
            (
                "training_stalled",
                "RUN has a queued batch, but no trainer has leased one for more than 10 min",
            )
        ],
    ),
    "no weights": (
        FLEET | UNTAKEN | QUIET | WAITS,
        [("training_stalled", "workers of RUN have no weights: no items for more than 10 min")],
    ),
    "newer weights are not published": (
        FLEET | UNTAKEN | QUIET | {"shares": HELD, "queued": 2, "version_age_seconds": 700.0},
        [("weights_late", "workers of RUN wait for newer weights, and no trainer publishes any")],
    ),
    "a worker failed": (
        FLEET | {"down_workers": ["worker 3 has failed"]},
        [("workers_down", "one worker of RUN is down: worker 3 has failed")],
    ),
    "workers crash": (
        FLEET | {"crashes": 3},
        [("workers_down", "workers of RUN crash again and again")],
    ),
    "a trainer that does not acknowledge": (
        FLEET | {"fetched_again": (1, 6)},
        [("training_stalled", "the trainer of RUN does not acknowledge its batches")],
    ),
    "environments fail": (
        FLEET | LOST,
        [("environments_fail", "environments of lab fail again and again")],
    ),
    "groups without a gradient": (
        LANGUAGE | {"groups_without_gradient": 64},
        [("no_gradient", "the newest groups of RUN have no gradient")],
    ),
    "stale data": (
        FLEET | {"stale_share": 0.21},
        [("stale_drops", "RUN drops more than 20 % of its items as stale")],
    ),
    "little stale data": (FLEET | {"stale_share": 0.2}, []),
    "a silent fleet of a paused run": (
        FLEET | {"status": "paused", "fleet": "unknown", "is_silence_due": True},
        [("fleet_silent", "the fleet of RUN has not reported for more than 30 s")],
    ),
    "two minutes of a start": (
        FLEET | GONE | {"status": "starting", "fleet": "starting", "status_seconds": 120.0},
        [],
    ),
    "a start with refused weights": (
        FLEET
        | GONE
        | {
            "status": "starting",
            "fleet": "starting",
            "status_seconds": 190.0,
            "refused_weights": "they do not fit",
        },
        [("run_not_starting", "RUN has been starting for more than 3 min: they do not fit")],
    ),
    "two causes": (
        FLEET | {"stale_share": 0.5, "down_workers": ["worker 3 has failed"]},
        [
            ("workers_down", "one worker of RUN is down: worker 3 has failed"),
            ("stale_drops", "RUN drops more than 20 % of its items as stale"),
        ],
    ),
}


@pytest.mark.parametrize("name", ALERTS)
def test_causes_raise_alerts(name: str) -> None:
    known, expected = ALERTS[name]
    causes = diagnose(Facts(**known))

    assert [(cause.kind, alert.message) for cause in causes for alert in cause.alerts] == expected


part = st.none() | st.floats(0, 1)
rate = st.none() | st.floats(0.01, 1e5)
facts = st.builds(
    Facts,
    kind=st.sampled_from(["fleet", "language", "outside"]),
    status=st.sampled_from(
        ["draft", "queued", "starting", "running", "paused", "draining", "stopped", "failed"]
    ),
    unit=st.just("fragments"),
    fleet=st.sampled_from(["none", "starting", "running", "paused", "unknown"]),
    silent_seconds=rate,
    workers=st.integers(0, 8),
    shares=st.dictionaries(
        st.sampled_from(["env_step", "infer", "send", "waiting_room", "waiting_weights"]),
        st.floats(0, 1),
    ),
    arriving=rate,
    handed_out=rate,
    queued=st.integers(0, 100),
    batch_size=st.none() | st.integers(1, 16),
    trainer_waits=part,
    holding_seconds=rate,
    delivery_seconds=rate,
    batches_per_second=rate,
    version=st.none() | st.integers(-1, 50),
    version_age_seconds=rate,
    version_interval_seconds=rate,
    workers_without_weights=st.integers(0, 8),
    train_seconds=rate,
    since_lease_seconds=rate,
    stale_share=part,
    versions_behind=st.integers(0, 9),
    behind_seconds=rate,
    environments=st.integers(0, 2),
    idle_environments=st.lists(st.just(ASKING), max_size=1),
    is_asked=st.booleans(),
    env_slots=st.integers(0, 8),
    slots_lost=st.integers(0, 8),
    loop_crashes=st.integers(0, 4),
    refused=st.lists(st.just("its workers: 2 fragments rejected"), max_size=1),
    groups=st.integers(4, 8),
    equal_groups=st.integers(0, 4),
    is_full=st.booleans(),
    is_limited=st.booleans(),
    max_staleness=st.none() | st.integers(0, 9),
).filter(lambda of: of.kind != "outside" or not of.shares)


@given(facts)
def test_statements_of_a_diagnosis_match_the_facts(of: Facts) -> None:
    """Each claim in a summary is consistent with its facts."""
    waits = of.trainer_waits
    claims = {
        "No trainer leases": waits is None and of.queued >= (of.batch_size or 0),
        "No trainer has registered": waits is None and of.batch_size is None,
        "The trainer is the bottleneck": waits is not None and waits <= SELDOM,
        "the trainer waits": waits is not None,
        "is paused": of.status == "paused",
        "is draining": of.status == "draining",
        "No reports from the fleet": of.fleet == "unknown" and of.kind != "outside",
        "The fleet": of.kind != "outside",
        "is starting": of.workers == 0,
        "No worker of the fleet is running": of.workers == 0,
        "queue is full": of.is_full,
        "pauses workers": of.kind != "outside" and (of.is_limited or of.held_back >= 0.3),
        "dropped as stale": (of.stale_share or 0) > SELDOM,
        "Workers wait for new weights": of.shares.get("waiting_weights", 0) > SELDOM,
        "staleness limit": of.max_staleness is not None,
        "off-policy tolerance": of.max_staleness is None,
        "No weights were published": (of.version_age_seconds or 0) >= LONG_SECONDS,
        "The slowest worker is": (of.behind_seconds or 0) >= LATE_SECONDS,
        "push nothing": of.arriving is None and bool(of.idle_environments),
        "no environment pushes": not of.environments and of.is_asked,
        "Environments fail": of.slots_lost >= 3,
        "had equal rewards": of.equal_groups > 0,
        "workers": of.kind != "outside",
    }
    causes = diagnose(of)
    untrue = [
        claim
        for cause in causes
        for claim, is_true in claims.items()
        if claim in cause.summary and not is_true
    ]

    assert untrue == []
    assert {cause.stage for cause in causes} <= {None, *STAGES}
    assert len({cause.kind for cause in causes}) == len(causes)
    assert diagnose(of) == causes


@given(facts)
def test_a_run_that_does_not_move_has_no_bottleneck(of: Facts) -> None:
    if of.status in {"draft", "paused", "stopped", "failed"}:
        diagnosis = diagnose(of)[0]

        assert diagnosis.stage is None
        assert "bottleneck" not in diagnosis.summary
