"""Names of the routes of the Atropos trajectory API."""

from typing import Final

NAMES: Final = (
    "register",
    "register-env",
    "disconnect-env",
    "wandb_info",
    "info",
    "status",
    "status-env",
    "scored_data",
    "scored_data_list",
    "batch",
    "latest_example",
    "reset_data",
)
"""Below the root of the server for the default run, and below ``/atropos/<run>/``."""
