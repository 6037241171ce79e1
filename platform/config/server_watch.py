"""Alerts about the server itself, evaluated by each web process.

Other alerts are evaluated by a background job, which cannot report that no job runs.
"""

import logging
import threading
import time
from typing import Final

from django.db import connection
from django.utils import timezone

from runs.alerts.rules import AlertKind
from runs.alerts.services import alerts, webhooks
from runs.deployment.queries import jobs_health
from runs.deployment.rules import STARTING_SECONDS

logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 15.0
KINDS: Final = frozenset({AlertKind.JOBS_DOWN, AlertKind.PART_EXITED})


def start() -> None:
    """Start the thread; it waits until all parts of a starting server send heartbeats."""
    threading.Thread(target=_run, name="rolldeck-server-watch", daemon=True).start()


def watch() -> None:
    """Evaluate the alerts once; without background jobs, also deliver them."""
    alerts.watch(now=timezone.now(), only=KINDS)
    if jobs_health(now=timezone.now()).problem:
        webhooks.send_due(clock=timezone.now)


def _run() -> None:
    time.sleep(STARTING_SECONDS)
    while True:
        try:
            watch()
        except Exception as error:  # noqa: BLE001 any outage of the database
            logger.info("alerts of the server not evaluated: %s", error)
        finally:
            connection.close()
        time.sleep(EVERY_SECONDS)
