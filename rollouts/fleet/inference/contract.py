"""The port between what samples groups and whatever generates tokens for it."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rollouts.fleet.engine.engine import Answer, Prompt, Version


class InferenceFailed(RuntimeError):
    """The server generates nothing more, or refused; the text says why."""


class InferenceServer(Protocol):
    """Generates answers; methods may be called from any thread."""

    @property
    def version(self) -> Version:
        """Epoch and step of the weights that draw at present."""

    def generate(
        self, prompts: Sequence[Prompt], *, stop: threading.Event, timeout_seconds: float
    ) -> list[list[Answer]]:
        """Return the answers to each prompt, in order; waits for all of them.

        Prompts are answered side by side. When `stop` is set it returns within a second; answers
        that had not ended are `cancelled`.

        Raises:
            InferenceFailed: If the server fails, or the time is over.
            PromptTooLong: If a prompt leaves no room in the context.
            TokenUnknown: If a prompt has tokens that the model lacks.
        """

    def update_weights(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Draw with other weights from the next step on, without dropping what is under way.

        Args:
            tensors: By the checkpoint's names (Hugging Face's for Llama and Qwen).
            version: Of these weights.

        Raises:
            WeightsDoNotFit: If names or shapes are not the model's.
        """

    def wait_until_ready(self, *, timeout_seconds: float, stop: threading.Event) -> bool:
        """Return whether it can generate, within the time."""

    def close(self) -> None:
        """End what was started for it."""
