"""Plugin of vLLM: receive the weights of a run over HTTP.

With this package in vLLM's environment, ``--weight-transfer-config '{"backend": "rolldeck"}'``
selects :class:`rolldeck.integrations.vllm_engine.HttpWeightTransferEngine`.
"""

from contextlib import suppress
from typing import Final

BACKEND: Final = "rolldeck"


def register() -> None:
    """Register the backend; vLLM calls it in each of its processes."""
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory

    with suppress(ValueError):  # registered earlier in this process
        WeightTransferEngineFactory.register_engine(
            BACKEND, "rolldeck.integrations.vllm_engine", "HttpWeightTransferEngine"
        )
