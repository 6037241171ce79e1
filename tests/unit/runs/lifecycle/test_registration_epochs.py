import pytest

from runs.lifecycle.rules import opens_epoch


@pytest.mark.parametrize(
    ("epoch", "published", "known", "resume", "is_fleet", "is_stock", "opens"),
    [
        (0, False, False, False, True, False, True),
        (0, False, False, True, True, False, True),
        (0, False, False, False, False, True, True),
        (1, False, False, False, True, False, False),
        (1, True, False, False, True, False, True),
        (1, False, True, False, True, False, True),
        (1, True, True, True, True, False, False),
        (1, True, True, False, False, True, False),
        (1, False, True, False, False, False, False),
        (1, True, False, False, False, False, True),
    ],
    ids=[
        "the first trainer",
        "the first trainer, although it resumes",
        "the first stock trainer",
        "a second trainer before any weights",
        "a second trainer after weights",
        "a restarted trainer",
        "a trainer that resumes",
        "a stock trainer never",
        "an outside run before any weights",
        "an outside run after weights",
    ],
)
def test_a_registration_opens_an_epoch_by_the_table(
    epoch: int,
    published: bool,
    known: bool,
    resume: bool,
    is_fleet: bool,
    is_stock: bool,
    opens: bool,
) -> None:
    assert opens is opens_epoch(
        epoch=epoch,
        published=published,
        known=known,
        resume=resume,
        is_fleet=is_fleet,
        is_stock=is_stock,
    )
