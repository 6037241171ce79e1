"""Samples of the usage of machines, one a minute for each machine."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec
from django.db import transaction

from rolldeck.wire import WorkerReport
from rollouts.control.models import MachineSample
from rollouts.control.queries.machines import nodes_seen
from rollouts.control.rules import is_valid_machine

KEPT_FOR: Final = timedelta(days=7)


@transaction.atomic
def record_machine_samples(*, workers: Iterable[WorkerReport], now: datetime) -> int:
    """Store the first measurement of each machine in the present minute; return their number.

    Invalid measurements are ignored, and machines that the cluster did not list when it was last
    read: a fleet can name no others.
    """
    reported = {
        worker.node_id: worker.machine
        for worker in workers
        if worker.machine is not None and worker.node_id and is_valid_machine(worker.machine)
    }
    if not reported:
        return 0
    minute = now.replace(second=0, microsecond=0)
    there = MachineSample.objects.filter(node__in=reported, at=minute)
    new = set(reported) - set(there.values_list("node", flat=True))
    if not new:
        return 0
    # In a fixed order, so that two runs with the same machines do not deadlock.
    known = sorted(new & {node["node"] for node in nodes_seen()})
    samples = [
        MachineSample(node=node, at=minute, **msgspec.structs.asdict(reported[node]))
        for node in known
    ]
    MachineSample.objects.bulk_create(samples, ignore_conflicts=True)
    return len(samples)


@transaction.atomic
def delete_old_machine_samples(*, now: datetime) -> int:
    """Delete samples older than a week; return their number."""
    return MachineSample.objects.filter(at__lt=now - KEPT_FOR).delete()[0]
