"""Settings of the evaluations of a step fleet."""

from typing import Annotated, Final

from msgspec import Struct

from runs.config.rules.config_field import described as _field
from runs.config.rules.config_field import none_of

_EVALUATED: Final = (none_of("evaluation.every_train_steps", 0),)


class StepEvaluationConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Schedule and size of the evaluations of a step fleet."""

    every_train_steps: Annotated[
        int,
        _field(
            "Evaluate every",
            "Train steps between evaluations of the newest weights; 0 for none. Not for language "
            "runs.",
            unit="steps",
            ge=0,
            le=1 << 31,
        ),
    ] = 0
    episodes: Annotated[
        int, _field("Episodes", "Episodes per evaluation.", when=_EVALUATED, ge=1, le=10_000)
    ] = 20
    envs: Annotated[
        int,
        _field(
            "Environments",
            "Environments that the evaluation steps concurrently, in a process of their own.",
            when=_EVALUATED,
            ge=1,
            le=256,
        ),
    ] = 4
    deterministic: Annotated[
        bool,
        _field(
            "Deterministic",
            "Take the most likely action instead of sampling actions.",
            when=_EVALUATED,
        ),
    ] = True
    timeout_seconds: Annotated[
        float,
        _field(
            "Time limit",
            "An evaluation that takes longer fails.",
            unit="s",
            when=_EVALUATED,
            gt=0,
            le=86_400,
        ),
    ] = 600.0
