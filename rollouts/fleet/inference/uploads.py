"""Upload weights to `rolldeck serve --accept-weights`, one replica after the other."""

from collections.abc import Mapping
from typing import Any

import httpx

from rolldeck.wire import ReplicaReport
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.engine.openai_messages import RUN, in_use
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.inference.replicas import Replicas
from rollouts.fleet.inference.weights import UPDATE_TIMEOUT, Unreachable, encoded
from rollouts.fleet.policies.policy_protocol import WeightsDoNotFit


class UploadedWeights:
    """Route for `rolldeck serve`, whose answers carry the version of each token."""

    def __init__(self, replicas: Mapping[str, httpx.Client], *, run: str) -> None:
        self._replicas, self._run = Replicas(replicas), run

    def current(self) -> Version:
        return max(self._versions())

    def oldest(self) -> Version:
        return min(self._versions())

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        content = encoded(tensors)
        self._replicas.roll(version, lambda http: _put(http, content, version, run=self._run))

    def repair(self) -> bool:
        """Change nothing: each answer has the version of its weights."""
        return False

    def replicas(self) -> list[ReplicaReport]:
        return self._replicas.reports()

    def _versions(self) -> list[Version]:
        """Return the version of each replica that can be reached.

        Raises:
            InferenceFailed: If a replica holds the weights of another run.
            Unreachable: If no replica can be reached.
        """
        return list(self._replicas.versions(lambda http: _version(http, run=self._run)).values())


def _version(http: httpx.Client, *, run: str) -> Version:
    try:
        health = http.get("/health").json()
        epoch, step = health["policy_version"]
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        raise Unreachable(f"GET /health: {error or type(error).__name__}") from error
    owner = health.get(RUN, "")
    if owner and owner != run:
        raise InferenceFailed(in_use(owner, (epoch, step)))
    return epoch, step


def _put(http: httpx.Client, content: bytes, version: Version, *, run: str) -> None:
    path = f"/v1/weights/{version[0]}/{version[1]}"
    try:
        response = http.put(path, params={RUN: run}, content=content, timeout=UPDATE_TIMEOUT)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise Unreachable(f"PUT {path}: {error}") from error
    except httpx.HTTPError as error:
        raise InferenceFailed(f"PUT {path}: {error}") from error
    if response.status_code == 404:
        raise InferenceFailed("the server was started without --accept-weights")
    if response.status_code == 400:
        raise WeightsDoNotFit(response.json()["error"]["message"])
    if response.status_code == 409 and response.json()["error"]["param"] == RUN:
        raise InferenceFailed(response.json()["error"]["message"])
    # Other 409: another worker has already loaded this version.
    if response.status_code not in {200, 409}:
        raise InferenceFailed(f"PUT {path}: {response.status_code} {response.text[:500]}")
