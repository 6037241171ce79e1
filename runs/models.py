"""Models of runs and of the requests about them."""

from runs.access.models import ApiToken, LoginCount, TokenIssuer, User
from runs.alerts.models import Alert, AlertDelivery, AlertRule, AlertSnooze
from runs.deployment.models import PART_KINDS, Deployment, PartExit, ProcessHeartbeat, ServerNotice
from runs.events.models import RunEvent
from runs.lifecycle.models import (
    AdvantageRule,
    Environment,
    EnvironmentNumbers,
    PolicyVersion,
    Run,
    RunDeletion,
    RunKind,
    RunNote,
    RunQuerySet,
    Trainer,
)
from runs.projects.models import Project
from runs.saved.models import SavedObject
from runs.weights.models import COMMAND_KINDS, WeightsCommand

__all__ = [
    "COMMAND_KINDS",
    "PART_KINDS",
    "AdvantageRule",
    "Alert",
    "AlertDelivery",
    "AlertRule",
    "AlertSnooze",
    "ApiToken",
    "Deployment",
    "Environment",
    "EnvironmentNumbers",
    "LoginCount",
    "PartExit",
    "PolicyVersion",
    "ProcessHeartbeat",
    "Project",
    "Run",
    "RunDeletion",
    "RunEvent",
    "RunKind",
    "RunNote",
    "RunQuerySet",
    "SavedObject",
    "ServerNotice",
    "TokenIssuer",
    "Trainer",
    "User",
    "WeightsCommand",
]
