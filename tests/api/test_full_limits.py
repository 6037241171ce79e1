"""A full queue, buffer, limit or rate is 429 with `Retry-After`; the Atropos routes answer 503."""

import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
from rest_framework.test import APIClient

from buffer.archive.rules import Window
from buffer.archive.services import archive_jobs
from rolldeck import safetensors
from rolldeck.group_encoding import pack_group
from rolldeck.wire import GROUPS_TYPE, GroupPush, encode
from rollouts.control.services import recordings
from rollouts.fleet.gateway import probes
from runs.access.rules import ATTEMPTS_PER_NAME_AND_PLACE
from runs.alerts.rules import fingerprint
from runs.lifecycle.models import Run
from tests.api.buffer.fragment_api import Api
from tests.buffer_factories import fragment, group
from tests.factories import NOON, bearer, make_outside_run, make_user
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.report_factories import launched

pytestmark = pytest.mark.django_db(transaction=True)

HOOK = "https://hooks.example.org/path"
CALL = {
    "key": "a",
    "kind": "chat",
    "messages": [{"role": "user", "content": "hi"}],
    "prompt_tokens": [1, 2],
    "answers": [{"tokens": [3], "logprobs": [-0.5], "versions": []}],
}


PUSH = encode(GroupPush(groups=[encode(pack_group(group()))]))


class Server:
    """An outside run `words` and a fleet run, at their limits, for an operator."""

    def __init__(self, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        make_outside_run()
        Run.objects.filter(name="words").update(batch_size=2)
        self.fleet = launched(FakeCluster())
        self.operator = APIClient()
        self.operator.force_login(make_user(username="olga", role="operator"))
        self.env = bearer("env", "trainer", run=Run.objects.get(name="words"))
        self.settings = settings
        self.patch = monkeypatch

    def fill(self) -> None:
        """Set the maximum number of items to none."""
        self.settings.ROLLDECK_MAX_QUEUED_GROUPS = 0
        self.settings.ROLLDECK_MAX_QUEUED_FRAGMENTS = 0

    def post(self, path: str, content: Any = None, **headers: str) -> Any:
        return self.operator.post(f"/api/v1/{path}", content or {}, format="json", headers=headers)

    def as_env(self, path: str, content: Any) -> Any:
        return APIClient().post(path, content, format="json", headers=self.env)


def push_groups(server: Server) -> Any:
    return APIClient().post(
        "/api/v1/runs/words/groups", data=PUSH, content_type=GROUPS_TYPE, headers=server.env
    )


def push_beyond_the_items(server: Server) -> Any:
    server.fill()
    return push_groups(server)


def push_beyond_the_bytes(server: Server) -> Any:
    server.settings.ROLLDECK_MAX_RUN_BYTES = 0
    return push_groups(server)


def push_fragments(server: Server) -> Any:
    server.fill()
    return Api(server.fleet).push(fragment())


def put_tensors(server: Server) -> Any:
    server.settings.ROLLDECK_MAX_RUN_BYTES = 0
    return APIClient().put(
        "/api/v1/runs/words/tensors",
        data=safetensors.encode({"0@ids": np.zeros(3, np.int32)}),
        content_type="application/octet-stream",
        headers=server.env,
    )


def score_captures(server: Server) -> Any:
    added = server.as_env("/api/v1/runs/words/captures/one/calls", CALL)
    assert added.status_code == 200, added.content
    server.fill()
    return server.as_env("/api/v1/runs/words/capture-scores", {"scores": {"one": 1.0}})


def push_to_atropos(server: Server) -> Any:
    server.fill()
    return server.as_env("/atropos/words/scored_data", group())


def push_list_to_atropos(server: Server) -> Any:
    server.fill()
    return server.as_env("/atropos/words/scored_data_list", [group()])


def request_archive(server: Server) -> Any:
    server.patch.setattr(archive_jobs, "MAX_OPEN", 0)
    return server.post("runs/words/archives")


def request_restoration(server: Server) -> Any:
    run = Run.objects.get(name="words")
    job = archive_jobs.request_archive(run=run, window=Window(), asked_by="user:olga", now=NOON)
    server.patch.setattr(archive_jobs, "archive_file", lambda _: None)
    server.patch.setattr(archive_jobs, "MAX_OPEN", 1)
    return server.post("runs/words/restorations", {"archive": job.pk})


def request_recordings(server: Server) -> Any:
    server.patch.setattr(recordings, "PENDING_AT_MOST", 0)
    return server.post(f"runs/{server.fleet.name}/recordings")


def probe(server: Server) -> Any:
    server.patch.setattr(probes, "_room", threading.Semaphore(0))
    return server.post("environments/probes", {"spec": "gymnasium:CartPole-v1"})


def check(server: Server) -> Any:
    server.patch.setattr(probes, "_room", threading.Semaphore(0))
    return server.post("run-checks", {"name": "a", "preset": "cartpole"})


def sign_in(server: Server) -> Any:
    wrong = {"username": "olga", "password": "wrong"}
    for _ in range(ATTEMPTS_PER_NAME_AND_PLACE):
        assert APIClient().post("/api/v1/session", wrong, format="json").status_code == 403
    return APIClient().post("/api/v1/session", wrong, format="json")


def change_password(server: Server) -> Any:
    wrong = {"current_password": "wrong", "new_password": "a long new password"}
    for _ in range(ATTEMPTS_PER_NAME_AND_PLACE):
        answer = server.operator.put("/api/v1/session/password", wrong, format="json")
        assert answer.status_code == 403
    return server.operator.put("/api/v1/session/password", wrong, format="json")


def send_test_event(server: Server) -> Any:
    server.settings.ROLLDECK_ALERT_WEBHOOKS = [HOOK]
    assert server.post(f"webhooks/{fingerprint(HOOK)}/test").status_code == 202
    return server.post(f"webhooks/{fingerprint(HOOK)}/test")


class Limit(NamedTuple):
    """One limit: the request beyond it, and its answer."""

    exceed: Callable[[Server], Any]
    code: str = "too_many_requests"
    status: int = 429


LIMITS: Final = [
    Limit(push_beyond_the_items, "over_quota"),
    Limit(push_beyond_the_bytes, "over_quota"),
    Limit(push_fragments, "over_quota"),
    Limit(put_tensors, "over_quota"),
    Limit(score_captures, "over_quota"),
    Limit(push_to_atropos, "", 503),
    Limit(push_list_to_atropos, "", 503),
    Limit(request_archive),
    Limit(request_restoration),
    Limit(request_recordings),
    Limit(probe),
    Limit(check),
    Limit(sign_in),
    Limit(change_password),
    Limit(send_test_event),
]


@pytest.mark.usefixtures("gateway")
@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.exceed.__name__)
def test_a_full_limit_is_answered_with_the_time_to_wait(
    limit: Limit, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = limit.exceed(Server(settings, monkeypatch))

    assert (answer.status_code, answer.json().get("code", "")) == (limit.status, limit.code)
    assert int(answer["Retry-After"]) > 0
