"""Load weights into a running inference server, once per version across all workers.

`rolldeck serve` receives them over HTTP. vLLM and SGLang read them from a folder
(:mod:`rollouts.fleet.inference.shared_folder`).
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

import httpx

from rolldeck import safetensors
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.engine.weights_owner import RUN, in_use
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.policies.policy_protocol import WeightsDoNotFit

UPDATE_SECONDS: Final = 600.0
NOTHING: Final[Version] = (0, -2)


class WeightsRoute(Protocol):
    """A way to load weights into a server."""

    def current(self) -> Version:
        """Return the version in use; the earlier one during a change."""

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Load `tensors` into the server unless it already has this version or a later one.

        Raises:
            InferenceFailed: If the server refuses or cannot be reached.
            WeightsDoNotFit: If they do not match its model.
        """


class FixedWeights:
    """Weights of a server that is only evaluated; their version is unknown."""

    def current(self) -> Version:
        """Return the version of unknown weights."""
        return NOTHING

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Raise InferenceFailed: the weights are not replaced."""
        raise InferenceFailed(f"{len(tensors)} tensors of {version} for a server that is fixed")


class PutWeights:
    """Route for `rolldeck serve --accept-weights`."""

    def __init__(self, http: httpx.Client, *, run: str) -> None:
        self._http, self._run = http, run

    def current(self) -> Version:
        """Return the version in use.

        Raises:
            InferenceFailed: If the weights belong to another run.
        """
        health = self._http.get("/health").json()
        epoch, step = health["policy_version"]
        owner = health.get(RUN, "")
        if owner and owner != self._run:
            raise InferenceFailed(in_use(owner, (epoch, step)))
        return epoch, step

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Load `tensors` into the server; see :class:`WeightsRoute`."""
        path = f"/v1/weights/{version[0]}/{version[1]}"
        try:
            response = self._http.put(
                path, params={RUN: self._run}, content=encoded(tensors), timeout=UPDATE_SECONDS
            )
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


def encoded(tensors: Mapping[str, Any]) -> bytes:
    """Return torch or NumPy tensors as a safetensors file."""
    if all(hasattr(value, "__array_interface__") for value in tensors.values()):
        return safetensors.encode(tensors)
    import torch
    from safetensors.torch import save

    return save({name: torch.as_tensor(value).contiguous() for name, value in tensors.items()})
