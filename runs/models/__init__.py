"""Models of runs and of the requests about them."""

from runs.models.alert_rules import AlertRule, AlertSilence
from runs.models.alerts import Alert, AlertDelivery
from runs.models.calls import ApiCall
from runs.models.deck import DeckNotice, DeckSample
from runs.models.events import RunEvent
from runs.models.logins import LoginCount
from runs.models.notes import RunNote
from runs.models.parts import PART_KINDS, DeckPart
from runs.models.presets import SavedPreset
from runs.models.runs import (
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
from runs.models.weights_orders import WEIGHTS_ORDERS, WeightsOrder

__all__ = [
    "PART_KINDS",
    "WEIGHTS_ORDERS",
    "AdvantageRule",
    "Alert",
    "AlertDelivery",
    "AlertRule",
    "AlertSilence",
    "ApiCall",
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
