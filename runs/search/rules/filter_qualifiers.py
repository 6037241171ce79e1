"""Qualifiers of run filters."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from runs.lifecycle.rules.lifecycle import RunStatus


class Form(StrEnum):
    """Value type of a qualifier; it determines the operators."""

    CHOICE = "choice"
    TEXT = "text"
    NUMBER = "number"
    TIME = "time"


OPERATORS: Final[dict[Form, tuple[str, ...]]] = {
    Form.CHOICE: (":", "="),
    Form.TEXT: (":", "=", "~"),
    Form.NUMBER: (":", "=", ">", ">=", "<", "<="),
    Form.TIME: (">", ">=", "<", "<="),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Qualifier:
    """One qualifier of the filter language.

    Attributes:
        name: The word before the operator.
        form: Value type.
        meaning: One-line description.
        choices: Allowed values; empty unless the form is a choice.
        example: A valid word.
    """

    name: str
    form: Form
    meaning: str
    example: str
    choices: tuple[str, ...] = ()

    @property
    def operators(self) -> tuple[str, ...]:
        """Return the allowed operators."""
        return OPERATORS[self.form]


QUALIFIERS: Final[dict[str, Qualifier]] = {
    each.name: each
    for each in (
        Qualifier(
            name="state",
            form=Form.CHOICE,
            meaning="Status of the run.",
            example="state:running,paused",
            choices=tuple(RunStatus),
        ),
        Qualifier(
            name="kind",
            form=Form.CHOICE,
            meaning="Kind of the run: the producer of its data.",
            example="kind:language",
            choices=("fleet", "language", "outside"),
        ),
        Qualifier(
            name="is",
            form=Form.CHOICE,
            meaning="Active, ended, archived, or with an unbalanced ledger.",
            example="is:active",
            choices=("active", "over", "archived", "unbalanced"),
        ),
        Qualifier(
            name="env",
            form=Form.TEXT,
            meaning="An environment or a lesson, whole (:) or in part (~).",
            example="env:CartPole-v1",
        ),
        Qualifier(
            name="project",
            form=Form.TEXT,
            meaning="Its project, whole (:) or in part (~).",
            example="project:cartpole",
        ),
        Qualifier(name="tag", form=Form.TEXT, meaning="One of its tags.", example="tag:ablation"),
        Qualifier(name="owner", form=Form.TEXT, meaning="Who created it.", example="owner:ada"),
        Qualifier(
            name="name", form=Form.TEXT, meaning="Its name, whole or in part.", example="name~cart"
        ),
        Qualifier(
            name="preset",
            form=Form.TEXT,
            meaning="Preset that the run was created from.",
            example="preset:cartpole",
        ),
        Qualifier(
            name="step", form=Form.NUMBER, meaning="Batches served so far.", example="step>100"
        ),
        Qualifier(
            name="planned",
            form=Form.NUMBER,
            meaning="Planned train steps.",
            example="planned>=1k",
        ),
        Qualifier(
            name="policy",
            form=Form.NUMBER,
            meaning="Step of the newest published weights.",
            example="policy>0",
        ),
        Qualifier(
            name="epoch",
            form=Form.NUMBER,
            meaning="Trainer sessions opened so far.",
            example="epoch>1",
        ),
        Qualifier(
            name="workers",
            form=Form.NUMBER,
            meaning="Requested rollout workers.",
            example="workers>=8",
        ),
        Qualifier(
            name="batch",
            form=Form.NUMBER,
            meaning="Sequences or fragments in a batch.",
            example="batch:256",
        ),
        Qualifier(
            name="created",
            form=Form.TIME,
            meaning="Age of the run, or time of its creation.",
            example="created<7d",
        ),
        Qualifier(
            name="changed",
            form=Form.TIME,
            meaning="Age of the current status, or time of its last change.",
            example="changed>36h",
        ),
    )
}
