"""Models of runs and of the requests about them."""

from runs.access.models.logins import LoginCount
from runs.access.models.tokens import ApiToken, TokenIssuer
from runs.alerts.models.alert_rules import AlertRule, AlertSilence
from runs.alerts.models.alerts import Alert, AlertDelivery
from runs.deployment.models.deployment import ServerNotice, SizeSample
from runs.deployment.models.process_heartbeats import PART_KINDS, ProcessHeartbeat
from runs.events.models import RunEvent
from runs.lifecycle.models.notes import RunNote
from runs.lifecycle.models.runs import (
    AdvantageRule,
    Environment,
    PolicyVersion,
    Run,
    RunKind,
    RunQuerySet,
    Trainer,
)
from runs.saved.models import SavedObject
from runs.weights.models import WEIGHTS_ORDERS, WeightsCommand

__all__ = [
    "PART_KINDS",
    "WEIGHTS_ORDERS",
    "AdvantageRule",
    "Alert",
    "AlertDelivery",
    "AlertRule",
    "AlertSilence",
    "ApiToken",
    "Environment",
    "LoginCount",
    "PolicyVersion",
    "ProcessHeartbeat",
    "Run",
    "RunEvent",
    "RunKind",
    "RunNote",
    "RunQuerySet",
    "SavedObject",
    "ServerNotice",
    "SizeSample",
    "TokenIssuer",
    "Trainer",
    "WeightsCommand",
]
