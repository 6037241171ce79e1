"""Withholding of simulated data from trainers."""

from runs.lifecycle.models.runs import Run
from web.rules.errors import Conflict


class SimulatedNotServed(Conflict):
    """The run's data is simulated, and its settings do not serve it."""

    code = "simulated_not_served"
    title = "Simulated data is not served"


def check_served(run: Run) -> None:
    """Check that a run's data may be served to trainers.

    Raises:
        SimulatedNotServed: If it is simulated and the run does not serve simulated data.
    """
    if run.withholds_data:
        raise SimulatedNotServed(
            f"the data of {run.name} is simulated: to train on it, set `serves_simulated` with "
            f"PATCH /api/v1/runs/{run.name}"
        )
