"""Name what a filter may ask of a run."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from runs.core.lifecycle import RunStatus


class Form(StrEnum):
    """What the value of a qualifier is, and so which operators it knows."""

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
    """One thing that may be asked.

    Attributes:
        name: As it is written before the operator.
        form: What its value is.
        meaning: For people, one line.
        choices: The values of a choice; empty for every other form.
        example: A word that works.
    """

    name: str
    form: Form
    meaning: str
    example: str
    choices: tuple[str, ...] = ()

    @property
    def operators(self) -> tuple[str, ...]:
        """Return the operators that it knows."""
        return OPERATORS[self.form]


QUALIFIERS: Final[dict[str, Qualifier]] = {
    each.name: each
    for each in (
        Qualifier(
            name="state",
            form=Form.CHOICE,
            meaning="Where the run stands in its life.",
            example="state:running,paused",
            choices=tuple(RunStatus),
        ),
        Qualifier(
            name="kind",
            form=Form.CHOICE,
            meaning="Who produces its data.",
            example="kind:language",
            choices=("fleet", "language", "outside"),
        ),
        Qualifier(
            name="is",
            form=Form.CHOICE,
            meaning="active, over, archived, or its ledger unbalanced.",
            example="is:active",
            choices=("active", "over", "archived", "unbalanced"),
        ),
        Qualifier(
            name="env",
            form=Form.TEXT,
            meaning="An environment or a lesson, whole (:) or in part (~).",
            example="env:CartPole-v1",
        ),
        Qualifier(name="tag", form=Form.TEXT, meaning="One of its tags.", example="tag:ablation"),
        Qualifier(name="owner", form=Form.TEXT, meaning="Who created it.", example="owner:ada"),
        Qualifier(
            name="name", form=Form.TEXT, meaning="Its name, whole or in part.", example="name~cart"
        ),
        Qualifier(
            name="preset",
            form=Form.TEXT,
            meaning="The preset it was made from.",
            example="preset:cartpole",
        ),
        Qualifier(
            name="step", form=Form.NUMBER, meaning="Batches served so far.", example="step>100"
        ),
        Qualifier(
            name="planned",
            form=Form.NUMBER,
            meaning="Train steps it is planned for.",
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
            meaning="Rollout workers that are wanted.",
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
            meaning="How old it is, or when it was created.",
            example="created<7d",
        ),
        Qualifier(
            name="changed",
            form=Form.TIME,
            meaning="How long its state holds, or since when.",
            example="changed>36h",
        ),
    )
}
