"""A gateway without a Ray cluster, in a thread of the test process: it probes environments."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings

from config.embedded import parts
from rollouts.fleet.gateway.server import Gateway


@contextmanager
def running_gateway() -> Iterator[str]:
    """Yield the address at which a head would be."""
    address = f"{parts.LOOPBACK}:{parts.free_ray_port()}"
    with Gateway(address, token=settings.RAY_AUTH_TOKEN) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield address
        server.shutdown()
        thread.join()


@pytest.fixture
def gateway(settings: Any) -> Iterator[str]:
    """Point the settings to a gateway; its probes have the variables and paths of this process."""
    with running_gateway() as address:
        settings.RAY_ADDRESS = address
        yield address
