"""API client for a run of fragments, in the roles of its fleet and its trainer."""

from typing import Any

import msgspec
from django.test import Client

from rolldeck import wire
from runs.lifecycle.models import Run
from tests.buffer_factories import body, push
from tests.factories import bearer


class Api:
    """The API of one run, as its fleet and its trainer use it."""

    def __init__(self, run: Run) -> None:
        self.client = Client()
        self.base = f"/api/v1/runs/{run.name}"
        self.worker = bearer("worker", run=run)
        self.trainer = bearer("trainer", "read", run=run)

    def push(self, *fragments: wire.Fragment, **headers: str) -> Any:
        return self.send(push(*fragments), **headers)

    def send(self, content: bytes, **headers: str) -> Any:
        return self.client.post(
            f"{self.base}/fragments",
            data=content,
            content_type=wire.FRAGMENTS_TYPE,
            headers=self.worker | headers,
        )

    def post(self, path: str, content: Any = None, *, trainer: dict[str, str] | None = None) -> Any:
        return self.client.post(
            self.base + path,
            data=body(content or {}),
            content_type="application/json",
            headers=trainer or self.trainer,
        )

    def register(self, **content: Any) -> Any:
        return self.post("/trainers", {"name": "t", "resume": True} | content)

    def next(self, **content: Any) -> wire.BatchAnswer | None:
        response = self.post("/batches/next", content)
        if response.status_code == 204:
            return None
        assert response.status_code == 200, response.content
        return msgspec.msgpack.decode(response.content, type=wire.BatchAnswer)

    def ledger(self) -> dict[str, Any]:
        response = self.client.get(f"{self.base}/ledger", headers=self.trainer)
        ledger: dict[str, Any] = response.json()["fragments"]
        assert ledger["balanced"]
        return ledger
