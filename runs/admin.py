"""Import the admin of every capability."""

from runs.access import admin as access
from runs.alerts import admin as alerts
from runs.config import admin as config
from runs.deployment import admin as deployment
from runs.events import admin as events
from runs.lifecycle.admin import rows, writings
from runs.weights import admin as weights

__all__ = ["access", "alerts", "config", "deployment", "events", "rows", "weights", "writings"]
