import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.alerts.rules import KINDS, AlertKind, Condition, Severity, advice_for, compare

CONDITIONS = st.builds(
    Condition,
    kind=st.sampled_from(AlertKind),
    message=st.text(max_size=5),
    run_id=st.none() | st.integers(1, 3),
    subject=st.sampled_from(["", "a", "b" * 300]),
)


@given(
    known=st.dictionaries(CONDITIONS.map(lambda condition: condition.key), st.integers(1, 10_000)),
    conditions=st.lists(CONDITIONS),
)
def test_every_alert_holds_or_resolves_and_every_condition_is_reported_once(
    known: dict[str, int], conditions: list[Condition]
) -> None:
    known = {key: number for number, key in enumerate(known, start=1)}

    seen = compare(known, conditions)

    assert {*seen.still, *seen.gone} == {*known.values()}
    assert not {*seen.still} & {*seen.gone}
    keys = [condition.key for condition in [*seen.new, *seen.still.values()]]
    assert sorted(keys) == sorted({condition.key for condition in conditions})
    assert all(known[condition.key] == alert for alert, condition in seen.still.items())


def test_a_condition_of_another_run_or_another_part_is_another_one() -> None:
    kind = AlertKind.LESSON_REGRESSED
    keys = {
        Condition(kind=kind, message="", run_id=run, subject=subject).key
        for run in (None, 1, 2)
        for subject in ("", "sums", "reverse")
    }

    assert len(keys) == 9


def test_the_message_of_a_condition_is_not_part_of_its_identity() -> None:
    first = Condition(kind=AlertKind.DISK_LOW, message="2 GB", severity=Severity.WARNING)
    then = Condition(kind=AlertKind.DISK_LOW, message="1 GB", details={"free": 1})

    assert first.key == then.key
    assert (first.weight, then.weight) == (Severity.WARNING, Severity.ERROR)


def test_every_kind_has_title_and_remedy() -> None:
    assert {*KINDS} == {*AlertKind}
    assert all(note.title and note.advice.endswith(".") for note in KINDS.values())


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("finite_number", "Replace NaN and infinity"),
        ("unknown_environment", "Register the environment in this run"),
        ("length_mismatch", "`lenient`"),
        ("too_large", "raise the setting that the message names"),
        ("too_long", "Send smaller groups"),
        ("json_invalid", "encodes its requests"),
        ("unknown_encoding", "encodes its requests"),
        ("invalid", "encodes its requests"),
        ("too_slow", "network"),
        ("idempotency_conflict", "`Idempotency-Key`"),
        ("run_not_accepting", "Start the run"),
        ("missing", "Correct the field that the message names"),
        ("a_reason_of_another_version", "Correct the field that the message names"),
    ],
)
def test_each_reason_of_a_refusal_has_its_remedy(reason: str, words: str) -> None:
    assert words in advice_for(reason)
