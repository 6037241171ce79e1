"""An external run named `words`, used by its environments, two trainers and an operator."""

from datetime import timedelta
from typing import Any

from django.db.models.functions import Now
from django.test import Client

from buffer import jobs
from buffer.items.models import Batch
from runs.lifecycle.models import Run
from tests.buffer_factories import ENVIRONMENT, REGISTRATION, body, group
from tests.factories import bearer, make_run, make_user


class OutsideRun:
    """One outside run as its environments, two trainers and an operator use it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.client = Client()
        self.trainer = bearer("trainer", "read", run=run)
        self.operator = Client()
        self.operator.force_login(make_user(username="olga", role="operator"))

    def post(self, path: str, content: Any, **headers: str) -> Any:
        return self.client.post(
            path, data=body(content), content_type="application/json", headers=headers
        )

    def push(self, *, mark: int = 1, **fields: Any) -> None:
        answer = self.post("/atropos/words/scored_data", group(mark=mark, **fields))
        assert answer.status_code == 200, answer.content

    def next(self, trainer: dict[str, str] | None = None) -> Any:
        """Return the next batch as JSON, or None."""
        answer = self.post(
            "/api/v1/runs/words/batches/next",
            {},
            **((trainer or self.trainer) | {"Accept": "application/json"}),
        )
        if answer.status_code == 204:
            return None
        assert answer.status_code == 200, answer.content
        return answer.json()

    def ack(self, batch: Any) -> Any:
        head = batch["batch"]
        return self.post(
            f"/api/v1/runs/words/batches/{head['id']}/ack", {"fence": head["fence"]}, **self.trainer
        )

    def get(self, path: str) -> Any:
        answer = self.operator.get(f"/api/v1/runs/words/{path}")
        assert answer.status_code == 200, answer.content
        return answer.json()

    def decide(self, verb: str, batch_id: str, *, reason: str = "") -> Any:
        return self.operator.post(
            f"/api/v1/runs/words/batches/{batch_id}/{verb}",
            data=body({"reason": reason}),
            content_type="application/json",
        )

    def lapse(self) -> None:
        Batch.objects.update(lease_expires_at=Now() - timedelta(seconds=1))
        jobs.reclaim_expired_leases()


def make_words_run() -> OutsideRun:
    """Return the run with one registered trainer."""
    run = make_run(name="words", kind="outside")
    outside = OutsideRun(run)
    registered = outside.post("/atropos/words/register", REGISTRATION, **outside.trainer)
    assert registered.status_code == 200, registered.content
    run.refresh_from_db()
    return outside


def make_mixed_run() -> OutsideRun:
    """Return the run once its trainer has begun, with the environments `math` and `code`."""
    outside = make_words_run()
    outside.next()
    for name in ("math", "code"):
        joined = outside.post("/atropos/words/register-env", ENVIRONMENT | {"desired_name": name})
        assert joined.status_code == 200, joined.content
    return outside
