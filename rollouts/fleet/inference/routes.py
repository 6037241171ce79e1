"""Select the way in which weights reach an inference server."""

from collections.abc import Mapping
from pathlib import Path

import httpx

from rollouts.fleet.inference.adapter_requests import AdapterServer
from rollouts.fleet.inference.adapters import Adapters
from rollouts.fleet.inference.reloading import SglangReload, VllmReload
from rollouts.fleet.inference.shared_folder import SharedFolder
from rollouts.fleet.inference.transfers import TransferredWeights, VllmTransfer
from rollouts.fleet.inference.uploads import UploadedWeights
from rollouts.fleet.inference.weights import WeightsRoute
from rollouts.fleet.policies.policy_protocol import PolicyDoesNotFit
from runs.config.rules.inference_servers import InferenceServerSettings
from runs.config.rules.language_config import AdapterConfig


def weights_route(
    settings: InferenceServerSettings, replicas: Mapping[str, httpx.Client], *, run: str
) -> WeightsRoute:
    """Return the route of all weights of a model.

    Args:
        settings: Description of the server.
        replicas: Clients by address.
        run: Name or key of the run that trains the weights.

    Raises:
        PolicyDoesNotFit: If vLLM or SGLang has neither `weights_directory` nor `weight_transfer`.
    """
    kind, model = settings.kind, settings.model
    if kind == "rolldeck":
        return UploadedWeights(replicas, run=run)
    if settings.weight_transfer:
        engines = {url: VllmTransfer(http, model=model) for url, http in replicas.items()}
        return TransferredWeights(engines, run=run)
    reload = VllmReload if kind == "vllm" else SglangReload
    readers = {url: reload(http, model=model) for url, http in replicas.items()}
    return SharedFolder(shared_folder(settings), readers, run=run)


def adapter_route(
    settings: InferenceServerSettings,
    replicas: Mapping[str, httpx.Client],
    *,
    run: str,
    adapter: AdapterConfig,
) -> Adapters:
    """Return the route of adapters; see `weights_route`."""
    kind, model = settings.kind, settings.model
    servers = {url: AdapterServer(http, kind=kind, model=model) for url, http in replicas.items()}
    return Adapters(shared_folder(settings), servers, run=run, adapter=adapter)


def shared_folder(settings: InferenceServerSettings) -> Path:
    """Return the folder of the served model; raises PolicyDoesNotFit if it is not set."""
    if not settings.weights_directory:
        raise PolicyDoesNotFit(
            "language.inference", f"{settings.kind} requires weights_directory to read weights from"
        )
    return Path(settings.weights_directory)
