"""Models of runs and of the requests about them."""

from runs.access.models.logins import LoginCount
from runs.alerts.models.alert_rules import AlertRule, AlertSilence
from runs.alerts.models.alerts import Alert, AlertDelivery
from runs.config.models import SavedPreset
from runs.deployment.models.deployment import DeckNotice, DeckSample
from runs.deployment.models.parts import PART_KINDS, DeckPart
from runs.lifecycle.models.events import RunEvent
from runs.lifecycle.models.notes import RunNote
from runs.lifecycle.models.runs import (
    AdvantageRule,
    ApiToken,
    Environment,
    PolicyVersion,
    Run,
    RunKind,
    RunQuerySet,
    TokenIssuer,
    Trainer,
)
from runs.weights.models import WEIGHTS_ORDERS, WeightsOrder

__all__ = [
    "PART_KINDS",
    "WEIGHTS_ORDERS",
    "AdvantageRule",
    "Alert",
    "AlertDelivery",
    "AlertRule",
    "AlertSilence",
    "ApiToken",
    "DeckNotice",
    "DeckPart",
    "DeckSample",
    "Environment",
    "LoginCount",
    "PolicyVersion",
    "Run",
    "RunEvent",
    "RunKind",
    "RunNote",
    "RunQuerySet",
    "SavedPreset",
    "TokenIssuer",
    "Trainer",
    "WeightsOrder",
]
