"""Import the admin of every capability."""

from runs.access import admin as access
from runs.alerts import admin as alerts
from runs.deployment import admin as deployment
from runs.events import admin as events
from runs.lifecycle import admin as lifecycle
from runs.projects import admin as projects
from runs.saved import admin as saved
from runs.weights import admin as weights

__all__ = ["access", "alerts", "deployment", "events", "lifecycle", "projects", "saved", "weights"]
