import pytest

from runs.lifecycle.rules import (
    ACCEPTING,
    ACTIVE,
    TERMINAL,
    TRANSITIONS,
    VERB_TARGETS,
    RunStatus,
    RunVerb,
    allowed_verbs,
    sources_of,
    sources_of_verb,
)

# The complete table of verbs per status.
VERBS = {
    "draft": "start kill",
    "queued": "pause drain stop kill",
    "starting": "pause drain stop kill",
    "running": "pause drain stop kill",
    "paused": "resume drain stop kill",
    "draining": "stop kill",
    "completed": "",
    "stopped": "start",
    "failed": "start",
}


@pytest.mark.parametrize("status", list(RunStatus))
def test_each_state_allows_exactly_the_verbs_of_the_table(status: RunStatus) -> None:
    assert allowed_verbs(status) == VERBS[status].split()


@pytest.mark.parametrize("status", list(RunStatus))
@pytest.mark.parametrize("verb", list(RunVerb))
def test_every_allowed_verb_is_a_transition_of_the_state_machine(
    status: RunStatus, verb: RunVerb
) -> None:
    if status in sources_of_verb(verb):
        assert VERB_TARGETS[verb] in TRANSITIONS[status] | {status}


def test_sources_are_the_reversed_transitions() -> None:
    for target in RunStatus:
        assert sources_of(target) == {s for s in RunStatus if target in TRANSITIONS[s]}


def test_every_state_is_draft_active_or_ended() -> None:
    assert {RunStatus.DRAFT} | ACTIVE | TERMINAL == set(RunStatus)
    assert not ACTIVE & TERMINAL


def test_a_completed_run_stays_completed() -> None:
    assert TRANSITIONS[RunStatus.COMPLETED] == frozenset()


def test_a_stopped_or_failed_run_may_only_be_queued_again() -> None:
    assert TRANSITIONS[RunStatus.STOPPED] == TRANSITIONS[RunStatus.FAILED] == {RunStatus.QUEUED}


def test_data_is_accepted_in_every_active_state_also_paused_and_draining() -> None:
    assert {RunStatus.PAUSED, RunStatus.DRAINING} <= ACCEPTING
    assert not ACCEPTING & (TERMINAL | {RunStatus.DRAFT})


def test_every_state_is_reached_from_a_draft() -> None:
    reached, front = {RunStatus.DRAFT}, [RunStatus.DRAFT]
    while front:
        fresh = TRANSITIONS[front.pop()] - reached
        reached |= fresh
        front += fresh

    assert reached == set(RunStatus)


def test_a_stop_sets_a_deadline_for_a_drain() -> None:
    assert RunStatus.DRAINING in sources_of_verb(RunVerb.STOP)
    assert RunStatus.DRAINING not in sources_of_verb(RunVerb.DRAIN)
