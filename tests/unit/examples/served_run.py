"""Serve a run with synthetic batches to an example trainer."""

import json
from collections.abc import Callable
from typing import Any

from rolldeck.wire import Fragment
from runs.config.rules import run_config
from tests.unit.client.batch_factories import make_batch_body
from tests.unit.client.failing_server import Planned, Seen

BATCHES = 3
BATCH_SIZE = 2


class ServedRun:
    """Run `demo`: three batches of fragments, then it ends. Use it as the rule of `serving`."""

    def __init__(
        self, config: run_config.RunConfig, *, make_fragment: Callable[..., Fragment]
    ) -> None:
        self.config = config
        self.published: list[dict[str, Any]] = []
        self.logged: list[dict[str, Any]] = []
        self.acked: list[int] = []
        self._make_fragment = make_fragment
        self._served = 0

    def __call__(self, request: Seen) -> Planned:
        body = self._answer(request)
        if body is None:
            return Planned(204, headers={"Rolldeck-Run-Status": "completed"})
        return Planned(body=body if isinstance(body, bytes) else json.dumps(body).encode())

    def _answer(self, request: Seen) -> object:
        match request.path.removeprefix("/api/v1/runs/demo"):
            case "/trainers":
                joined = {"epoch": 1, "policy_step": -2, "batch_size": BATCH_SIZE, "uuid": 1}
                return joined | {"config": run_config.to_builtins(self.config)}
            case "/weights":
                part = request.body.split(b'name="manifest"')[1].split(b"\r\n\r\n", 1)[1]
                self.published.append(json.loads(part.split(b"\r\n")[0]))
                return self.published[-1]
            case "/batches/next":
                if self._served == BATCHES:
                    return None
                self._served += 1
                numbers = range(BATCH_SIZE * self._served, BATCH_SIZE * (self._served + 1))
                return make_batch_body([self._make_fragment(number=number) for number in numbers])
            case "/metrics":
                self.logged.append(json.loads(request.body))
                return {}
            case "/batches/b1/ack":
                self.acked.append(json.loads(request.body)["fence"])
                return {"served_steps": len(self.acked)}
        return {"status": "completed"}
