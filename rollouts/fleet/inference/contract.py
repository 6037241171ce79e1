"""Interface between group sampling and token generation."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rolldeck.wire import ReplicaReport
from rollouts.fleet.engine.engine import Answer, Prompt, Version


class InferenceFailed(RuntimeError):
    """The server failed or refused a request; the text contains the reason."""


class InferenceServer(Protocol):
    """Generator of answers; thread-safe."""

    @property
    def version(self) -> Version:
        """Epoch and step of the weights in use."""

    def generate(
        self, prompts: Sequence[Prompt], *, stop: threading.Event, timeout_seconds: float
    ) -> list[list[Answer]]:
        """Wait for the answers to all prompts, and return them in order.

        Prompts are processed concurrently. When `stop` is set, the call returns within a second,
        and unfinished answers are `cancelled`.

        Raises:
            InferenceFailed: If the server fails, or the time limit is reached.
            PromptTooLong: If a prompt leaves no room in the context.
            TokenUnknown: If a prompt has tokens outside the model's vocabulary.
        """

    def update_weights(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Use other weights from the next step on; sequences in progress continue.

        Args:
            tensors: Tensors with the names of the checkpoint (Hugging Face's for Llama and Qwen).
            version: Version of these weights.

        Raises:
            WeightsDoNotFit: If names or shapes do not match the model.
        """

    def outage(self) -> str:
        """Return for how long and why requests have failed; empty if the newest succeeded."""

    def replicas(self) -> list[ReplicaReport]:
        """Return version and last contact of each replica; empty for a server in this process."""

    def wait_until_ready(self, *, timeout_seconds: float, stop: threading.Event) -> bool:
        """Wait until the server can generate; return False on timeout or stop."""

    def rest(self) -> None:
        """Put the server to sleep until the next request, if it is configured to sleep.

        Raises:
            InferenceFailed: If the server refuses or cannot be reached.
        """

    def close(self) -> None:
        """Release all resources of this interface."""
