"""What the platform remembers about runs, and about those who ask for them."""

from runs.models.calls import ApiCall
from runs.models.events import RunEvent
from runs.models.runs import (
    AdvantageRule,
    ApiToken,
    Environment,
    PolicyVersion,
    Run,
    RunKind,
    RunQuerySet,
    Trainer,
)

__all__ = [
    "AdvantageRule",
    "ApiCall",
    "ApiToken",
    "Environment",
    "PolicyVersion",
    "Run",
    "RunEvent",
    "RunKind",
    "RunQuerySet",
    "Trainer",
]
