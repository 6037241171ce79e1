"""Replicas of an inference server, whose weights are replaced one after the other."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

import httpx

from rolldeck.wire import ReplicaReport
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.engine.openai_messages import RUN, in_use
from rollouts.fleet.inference.contract import UPDATE_TIMEOUT, InferenceFailed, Unreachable, encoded
from rollouts.fleet.policies.policy_protocol import WeightsDoNotFit

ERROR_CHARACTERS = 300
Replica = TypeVar("Replica")
Result = TypeVar("Result")


class ReplicasBehind(InferenceFailed):
    """Some replicas have `version`, and others could not be reached."""

    def __init__(self, message: str, version: Version) -> None:
        super().__init__(message)
        self.version = version


class _Contact(NamedTuple):
    """Outcome of the last attempt to reach a replica."""

    version: Version | None = None
    at: float | None = None
    """Time of the last response, in monotonic seconds."""
    error: str = ""


class Replicas(Generic[Replica]):
    """Replicas by address."""

    def __init__(self, by_url: Mapping[str, Replica]) -> None:
        self._by_url = dict(by_url)
        self._contacts = dict.fromkeys(by_url, _Contact())

    def reports(self) -> list[ReplicaReport]:
        """Return version and last contact of each replica, without a request."""
        now, reports = time.monotonic(), []
        for url, contact in self._contacts.items():
            # Host and port, without credentials.
            parts = urlsplit(url)
            host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
            port = parts.port or (443 if parts.scheme == "https" else 80)
            reports.append(
                ReplicaReport(
                    address=f"{host}:{port}",
                    version=contact.version,
                    contact_seconds=None if contact.at is None else now - contact.at,
                    error=contact.error[:ERROR_CHARACTERS],
                )
            )
        return reports

    def versions(self, question: Callable[[Replica], Version]) -> dict[str, Version]:
        """Return the version of each replica that can be reached; raises like `ask`."""
        found = self.ask(question)
        for url, version in found.items():
            self._contacts[url] = self._contacts[url]._replace(version=version)
        return found

    def ask(self, question: Callable[[Replica], Result]) -> dict[str, Result]:
        """Return the results of the replicas that can be reached, by address.

        Raises:
            InferenceFailed: If a replica refuses.
            Unreachable: If none can be reached.
        """
        found, missed = self._each(question)
        if not found:
            raise Unreachable("; ".join(missed.values()))
        return found

    def ask_all(self, question: Callable[[Replica], Result]) -> None:
        """Ask each replica.

        Raises:
            InferenceFailed: If a replica refuses, or cannot be reached.
        """
        _, missed = self._each(question)
        if missed:
            raise Unreachable("; ".join(missed.values()))

    def roll(self, version: Version, load: Callable[[Replica], None]) -> None:
        """Load a version into one replica after the other.

        A replica that refuses ends the roll, because the next one would refuse as well.

        Args:
            version: The version, for the error.
            load: Loads it into a replica, unless the replica already has it.

        Raises:
            InferenceFailed: If a replica refuses; those after it keep their weights.
            Unreachable: If none can be reached.
            ReplicasBehind: If only some can be reached; these have the version.
        """
        loaded, missed = self._each(load)
        for url in loaded:
            self._contacts[url] = self._contacts[url]._replace(version=version)
        if missed and loaded:
            raise ReplicasBehind(
                f"{len(missed)} of {len(self._by_url)} replicas cannot be reached: "
                f"{'; '.join(missed.values())}",
                version,
            )
        if missed:
            raise Unreachable("; ".join(missed.values()))

    def _each(self, call: Callable[[Replica], Result]) -> tuple[dict[str, Result], dict[str, str]]:
        """Return results, and the reasons of unreachable replicas, by address."""
        found: dict[str, Result] = {}
        missed: dict[str, str] = {}
        for url, replica in self._by_url.items():
            try:
                found[url] = call(replica)
                contact = self._contacts[url]
                self._contacts[url] = contact._replace(at=time.monotonic(), error="")
            except Unreachable as reason:
                missed[url] = f"{url}: {reason}"
                self._contacts[url] = self._contacts[url]._replace(error=str(reason))
            except InferenceFailed as failure:
                raise InferenceFailed(f"{url}: {failure}") from failure
        return found, missed


class UploadedWeights:
    """Route for `rolldeck inference`, whose answers carry the version of each token."""

    def __init__(self, replicas: Mapping[str, httpx.Client], *, run: str) -> None:
        self._replicas, self._run = Replicas(replicas), run

    def current(self) -> Version:
        return max(self._versions())

    def oldest(self) -> Version:
        return min(self._versions())

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        content = encoded(tensors)
        path = f"/v1/weights/{version[0]}/{version[1]}"
        params = {RUN: self._run}

        def put(http: httpx.Client) -> None:
            try:
                response = http.put(path, params=params, content=content, timeout=UPDATE_TIMEOUT)
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

        self._replicas.roll(version, put)

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

        def version(http: httpx.Client) -> Version:
            try:
                health = http.get("/health").json()
                epoch, step = health["policy_version"]
            except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
                raise Unreachable(f"GET /health: {error or type(error).__name__}") from error
            owner = health.get(RUN, "")
            if owner and owner != self._run:
                raise InferenceFailed(in_use(owner, (epoch, step)))
            return epoch, step

        return list(self._replicas.versions(version).values())
