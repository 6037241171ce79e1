"""Requests that load LoRA adapters into vLLM and SGLang, and unload them.

Sources: ``vllm/entrypoints/serve/lora`` in vLLM 0.32, and
``python/sglang/srt/entrypoints/http_server.py`` in SGLang.
"""

from http import HTTPStatus
from pathlib import Path
from typing import Final

import httpx

from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.inference.reloading import check_model, post

PATHS: Final = {
    "vllm": ("/v1/load_lora_adapter", "/v1/unload_lora_adapter"),
    "sglang": ("/load_lora_adapter", "/unload_lora_adapter"),
}
"""Paths of the routes by kind of server."""
OPTIONS: Final = {
    "vllm": "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 and --enable-lora",
    "sglang": "--enable-lora",
}
"""What a server must be started with, by kind."""


class AdapterServer:
    """A replica that loads adapters at run time."""

    def __init__(self, http: httpx.Client, *, kind: str, model: str = "") -> None:
        """Prepare the requests.

        Args:
            http: Client of the replica.
            kind: Kind of server, ``vllm`` or ``sglang``.
            model: Name of the adapted model; empty if any is accepted.
        """
        self._http, self._kind, self._model = http, kind, model
        self._load, self._unload = PATHS[kind]

    def load(self, name: str, folder: Path) -> bool:
        """Load an adapter; return whether it was missing.

        Raises:
            InferenceFailed: If the replica refuses it, or adapts another model.
            Unreachable: If it cannot be reached.
        """
        check_model(self._http, self._model)
        body = {"lora_name": name, "lora_path": str(folder)}
        response = post(self._http, self._load, body)
        text = response.text[:500]
        if response.status_code == HTTPStatus.OK:
            return True
        if response.status_code == HTTPStatus.BAD_REQUEST and "already" in text:
            return False
        refused = f"language.model.adapter: POST {self._load}: {response.status_code} {text}"
        if "No adapter found" in text:
            refused += f". The server must see weights_directory as {folder.parents[3]}"
        elif response.status_code == HTTPStatus.NOT_FOUND or "not enabled" in text:
            refused += f". Adapters require a server started with {OPTIONS[self._kind]}"
        raise InferenceFailed(refused)

    def unload(self, name: str) -> None:
        """Unload an adapter, if the replica has it.

        Raises:
            InferenceFailed: If the replica fails.
            Unreachable: If it cannot be reached.
        """
        response = post(self._http, self._unload, {"lora_name": name})
        if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            text = response.text[:500]
            raise InferenceFailed(f"POST {self._unload}: {response.status_code} {text}")
