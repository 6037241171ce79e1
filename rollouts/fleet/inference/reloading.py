"""Requests that make vLLM and SGLang reload their weights from a folder."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Protocol

import httpx

from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.inference.weights import UPDATE_SECONDS

OUTPUT_LAYER: Final = "lm_head.weight"
"""Weights of the output layer; models with tied embeddings do not store them."""


class FolderServer(Protocol):
    """Server that reads its weights from a folder on request."""

    def check(self, names: Collection[str]) -> None:
        """Check that the server can reload weights with these names.

        Raises:
            InferenceFailed: If it cannot.
        """

    def reload(self, folder: Path, label: str) -> None:
        """Make the server read the folder, and label the weights; generation is paused meanwhile.

        Raises:
            InferenceFailed: If the server refuses or cannot be reached.
        """


class VllmReload:
    """vLLM, started on the folder with ``VLLM_SERVER_DEV_MODE=1``.

    Requests in progress keep their tokens and continue. Source of the routes:
    ``vllm/entrypoints/serve/dev`` and ``vllm/entrypoints/rl`` in vLLM.
    """

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._is_checked = False

    def check(self, names: Collection[str]) -> None:
        """Refuse tied embeddings on a CPU, where vLLM keeps a copy of the first output layer."""
        if OUTPUT_LAYER in names or self._is_checked:
            return
        if self._device() == "cpu":
            raise InferenceFailed(
                f"the model has tied embeddings, without {OUTPUT_LAYER}: vLLM on a CPU would keep "
                "its earlier output layer. Use a GPU, or a model that stores the output layer"
            )
        self._is_checked = True

    def reload(self, folder: Path, label: str) -> None:  # noqa: ARG002 the folder of the start
        """Reload and label the weights; see :class:`FolderServer`."""
        with _paused(self._http, ("/pause?mode=keep", None), ("/resume", None)):
            _post(self._http, "/collective_rpc", {"method": "reload_weights"})
            _post(self._http, "/reset_prefix_cache?reset_running_requests=true")
            body = {"new_version": label}
            _post(self._http, "/update_weight_version", body, is_optional=True)

    def _device(self) -> str:
        """Return the type of the server's device; empty if the release does not report it."""
        path = "/server_info?config_format=json"
        try:
            response = self._http.get(path, timeout=UPDATE_SECONDS)
            return str(response.json()["vllm_config"]["device_config"]["device"])
        except httpx.HTTPError as error:
            raise InferenceFailed(f"GET {path}: {error}") from error
        except (ValueError, KeyError, TypeError):
            return ""


class SglangReload:
    """SGLang; requests in progress recompute their cache and continue."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def check(self, names: Collection[str]) -> None:
        """Accept any names."""

    def reload(self, folder: Path, label: str) -> None:  # noqa: ARG002 only vLLM's labels are read
        """Reload the weights; see :class:`FolderServer`."""
        pause: Request = ("/pause_generation", {"mode": "retract"})
        with _paused(self._http, pause, ("/continue_generation", {})):
            body = {"model_path": str(folder), "flush_cache": True}
            _post(self._http, "/update_weights_from_disk", body)


Request = tuple[str, dict[str, Any] | None]


@contextmanager
def _paused(http: httpx.Client, pause: Request, resume: Request) -> Iterator[None]:
    """Pause generation. After a failure too, resume it; the first error is the one raised."""
    try:
        _post(http, *pause)
        yield
    except InferenceFailed as failure:
        try:
            _post(http, *resume)
        except InferenceFailed as second:
            raise InferenceFailed(f"{failure}; generation was not resumed: {second}") from failure
        raise
    _post(http, *resume)


def _post(
    http: httpx.Client,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    is_optional: bool = False,
) -> None:
    """Post JSON on a new connection.

    vLLM closes a connection after an error, while the next request may already be sent.

    Args:
        http: Client of the server.
        path: Path of the route.
        body: Content; None for none.
        is_optional: Whether a server without this route is left unchanged.

    Raises:
        InferenceFailed: If the server refuses or cannot be reached.
    """
    headers = {"Connection": "close"}
    try:
        response = http.post(path, json=body, headers=headers, timeout=UPDATE_SECONDS)
    except httpx.HTTPError as error:
        raise InferenceFailed(f"POST {path}: {error}") from error
    if is_optional and response.status_code == HTTPStatus.NOT_FOUND:
        return
    if response.status_code != 200 or b'"success":false' in response.content.replace(b" ", b""):
        raise InferenceFailed(f"POST {path}: {response.status_code} {response.text[:500]}")
