"""Admin of recorded diagnoses."""

from rollouts.diagnosis.models import RunDiagnosis
from web.admin.read_only import RUN_FILTER, register_read_only

register_read_only(RunDiagnosis, columns="run_link kind since", filters=("kind", RUN_FILTER))
