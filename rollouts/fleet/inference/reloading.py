"""Requests that make vLLM and SGLang reload their weights from a folder."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Protocol

import httpx

from rollouts.fleet.inference.contract import UPDATE_TIMEOUT, InferenceFailed, Unreachable

OUTPUT_LAYER: Final = "lm_head.weight"
"""Weights of the output layer; models with tied embeddings do not store them."""

LABEL_SECONDS: Final = 30.0
"""Time limit of a server for reporting its label; an engine between two steps needs less."""


class FolderServer(Protocol):
    """Server that reads its weights from a folder on request."""

    def label(self) -> str | None:
        """Return the label of the weights in use; None if the release reports none.

        Raises:
            Unreachable: If the server does not respond.
        """

    def check(self, names: Collection[str]) -> None:
        """Check that the server can reload weights with these names.

        Raises:
            InferenceFailed: If it cannot, or serves another model.
        """

    def reload(self, folder: Path, label: str) -> None:
        """Make the server read the folder, and label the weights; generation is paused meanwhile.

        Raises:
            InferenceFailed: If the server refuses or ends.
            Unreachable: If it cannot be reached, and has therefore changed nothing.
        """


class VllmReload:
    """vLLM, started on the folder with ``VLLM_SERVER_DEV_MODE=1``.

    An empty `model` accepts any. Requests in progress keep their tokens and continue. Source of the
    routes: ``vllm/entrypoints/serve/dev`` and ``vllm/entrypoints/rl`` in vLLM.
    """

    def __init__(self, http: httpx.Client, *, model: str = "") -> None:
        self._http, self._model = http, model
        self._is_checked = False

    def label(self) -> str | None:
        return _reported(self._http, "/weight_info")

    def check(self, names: Collection[str]) -> None:
        """Check the served model, and refuse tied embeddings on a CPU.

        There vLLM keeps a copy of the first output layer.
        """
        check_model(self._http, self._model)
        if OUTPUT_LAYER in names or self._is_checked:
            return
        path, device = "/server_info?config_format=json", ""
        try:
            response = self._http.get(path, timeout=UPDATE_TIMEOUT)
            device = str(response.json()["vllm_config"]["device_config"]["device"])
        except httpx.HTTPError as error:
            raise Unreachable(f"GET {path}: {error}") from error
        except (ValueError, KeyError, TypeError):
            pass  # the release does not report it
        if device == "cpu":
            raise InferenceFailed(
                f"the model has tied embeddings, without {OUTPUT_LAYER}: vLLM on a CPU would keep "
                "its earlier output layer. Use a GPU, or a model that stores the output layer"
            )
        self._is_checked = True

    def reload(self, folder: Path, label: str) -> None:  # noqa: ARG002 the folder of the start
        with paused(self._http, ("/pause?mode=keep", None), ("/resume", None)):
            post_json(self._http, "/collective_rpc", {"method": "reload_weights"})
            post_json(self._http, "/reset_prefix_cache?reset_running_requests=true")
            body = {"new_version": label}
            post_json(self._http, "/update_weight_version", body, is_optional=True)


class SglangReload:
    """SGLang; requests in progress recompute their cache and continue."""

    def __init__(self, http: httpx.Client, *, model: str = "") -> None:
        self._http, self._model = http, model

    def label(self) -> str | None:
        return _reported(self._http, "/model_info")

    def check(self, names: Collection[str]) -> None:  # noqa: ARG002 any names
        check_model(self._http, self._model)

    def reload(self, folder: Path, label: str) -> None:
        pause: Request = ("/pause_generation", {"mode": "retract"})
        with paused(self._http, pause, ("/continue_generation", {})):
            body = {"model_path": str(folder), "flush_cache": True, "weight_version": label}
            post_json(self._http, "/update_weights_from_disk", body)


Request = tuple[str, dict[str, Any] | None]


@contextmanager
def paused(http: httpx.Client, pause: Request, resume: Request) -> Iterator[None]:
    """Pause generation. After a failure too, resume it; the first error is the one raised."""
    try:
        post_json(http, *pause)
        yield
    except InferenceFailed as failure:
        try:
            post_json(http, *resume)
        except InferenceFailed as second:
            text = f"{failure}; generation was not resumed: {second}"
            raise type(failure)(text) from failure
        raise
    post_json(http, *resume)


def post_json(
    http: httpx.Client,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    is_optional: bool = False,
) -> None:
    """Post JSON; see `post`.

    Args:
        http: Client of the server.
        path: Path of the route.
        body: Content; None for none.
        is_optional: Whether a server without this route is left unchanged.

    Raises:
        InferenceFailed: If the server refuses or ends.
        Unreachable: If no connection was possible.
    """
    response = post(http, path, body)
    if is_optional and response.status_code == HTTPStatus.NOT_FOUND:
        return
    if response.status_code != 200 or b'"success":false' in response.content.replace(b" ", b""):
        raise InferenceFailed(f"POST {path}: {response.status_code} {response.text[:500]}")


def post(http: httpx.Client, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
    """Post JSON on a new connection, and return the response with any status.

    vLLM closes a connection after an error, while the next request may already be sent.

    Raises:
        InferenceFailed: If the server ends.
        Unreachable: If no connection was possible.
    """
    headers = {"Connection": "close"}
    try:
        return http.post(path, json=body, headers=headers, timeout=UPDATE_TIMEOUT)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise Unreachable(f"POST {path}: {error}") from error
    except httpx.HTTPError as error:
        raise InferenceFailed(f"POST {path}: {error}") from error


def _reported(http: httpx.Client, path: str) -> str | None:
    """Return the field `weight_version` of a JSON response; None if the server reports none."""
    try:
        response = http.get(path, timeout=LABEL_SECONDS)
    except httpx.HTTPError as error:
        raise Unreachable(f"GET {path}: {error or type(error).__name__}") from error
    if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Unreachable(f"GET {path}: {response.status_code} {response.text[:500]}")
    try:
        label = response.json()["weight_version"]
    except (ValueError, KeyError, TypeError):
        return None
    return label if isinstance(label, str) else None


def check_model(http: httpx.Client, model: str) -> None:
    """Refuse a server of another model; releases without a list of models are accepted."""
    try:
        response = http.get("/v1/models", timeout=LABEL_SECONDS)
        served = [str(one["id"]) for one in response.json()["data"]]
    except httpx.HTTPError as error:
        raise Unreachable(f"GET /v1/models: {error or type(error).__name__}") from error
    except (ValueError, KeyError, TypeError):
        return
    if model and model not in served:
        raise InferenceFailed(f"serves the model {', '.join(served)}, not {model}")
