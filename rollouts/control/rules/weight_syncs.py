"""Weight sync progress of a worker, derived from two of its reports."""

from typing import Final, Literal, NamedTuple

NONE_STEP: Final = -2
Stage = Literal["announced", "staged", "active"]


class Steps(NamedTuple):
    """The newest version that a worker knows of, holds, and acts with; -2 for none."""

    announced: int
    staged: int
    active: int


def advances(before: Steps, after: Steps) -> list[tuple[int, Stage]]:
    """Return (step, stage) for each stage that a version has newly reached.

    Only the newest version of each stage is reported. Versions in between are skipped: it is
    unknown when they arrived, or whether they did.
    """
    stages: tuple[Stage, ...] = ("announced", "staged", "active")
    return [
        (now, stage)
        for stage, was, now in zip(stages, before, after, strict=True)
        if now != was and now > NONE_STEP
    ]
