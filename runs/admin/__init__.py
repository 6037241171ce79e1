"""Admin of runs, and base classes for the admins of other apps."""

from runs.admin import alerts as alerts
from runs.admin import deck as deck
from runs.admin import people as people
from runs.admin import rows as rows
from runs.admin import writings as writings
