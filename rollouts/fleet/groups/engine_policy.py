"""Let published weights into the engine: received beside it, adopted between two steps."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

import torch
from numpy.typing import NDArray

from rollouts.fleet.groups.torch_server import TorchInferenceServer
from rollouts.fleet.language.building import build
from rollouts.fleet.language.engine import Version
from rollouts.fleet.language.tokenizers import Tokenizer
from rollouts.fleet.language.transformer import Transformer
from rollouts.fleet.policies.base import device_of
from runs.core.language_config import LanguageConfig

CHECKPOINTS_VARIABLE: Final = "ROLLDECK_CHECKPOINTS"
"""Names the folder in which an administrator keeps this machine's checkpoints."""
MOST_ROWS: Final = 512
"""Sequences that are generated at a time; more wait for a row, the cache has room for no more."""


class EnginePolicy:
    """The policy of a language run as a weights loader sees it."""

    def __init__(self, server: TorchInferenceServer, tokenizer: Tokenizer, context: int) -> None:
        self.server = server
        self.tokenizer = tokenizer
        self.context_tokens = context
        self._adopted: Transformer | None = None

    @classmethod
    def of(cls, language: LanguageConfig, *, device: str, rows: int) -> Self:
        """Return the policy that a run describes; it draws with weights that no version has.

        Raises:
            CheckpointUnreadable: If this machine has no such checkpoint.
            TokenizerUnusable: If the tokenizer does not fit.
            PolicyDoesNotFit: If the device is not there.
        """
        # Workers share their machine; more threads than one only get in each other's way.
        torch.set_num_threads(1)
        root = os.environ.get(CHECKPOINTS_VARIABLE)
        model, tokenizer = build(
            language,
            checkpoints_folder=Path(root) if root else None,
            device=str(device_of(device)),
        )
        server = TorchInferenceServer(model, rows=min(rows, MOST_ROWS))
        return cls(server, tokenizer, model.config.max_position_embeddings)

    def prepare(self, tensors: Mapping[str, NDArray[Any]]) -> Transformer:
        """Return a model with these weights; touches nothing that draws.

        Raises:
            WeightsDoNotFit: If names or shapes are not the model's.
        """
        return self.server.prepare(tensors)

    def adopt(self, prepared: Transformer) -> None:
        """Take the model; `draw_with` follows in the same thread and says what it is called."""
        self._adopted = prepared

    def draw_with(self, version: Version) -> None:
        """Draw with the model that was adopted last, under its name."""
        if self._adopted is not None:
            self.server.adopt(self._adopted, version)
            self._adopted = None
