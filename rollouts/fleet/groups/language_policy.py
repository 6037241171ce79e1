"""Let published weights into whatever draws: received beside it, adopted between two tokens."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import torch
from numpy.typing import NDArray

from rollouts.fleet.engine.building import build, tokenizer_for
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.engine.tokenizers import Tokenizer
from rollouts.fleet.engine.transformer import Transformer
from rollouts.fleet.groups.torch_server import TorchInferenceServer
from rollouts.fleet.inference.contract import InferenceServer
from rollouts.fleet.inference.servers import inference_server_for
from rollouts.fleet.policies.base import device_of
from rollouts.fleet.policies.policy_protocol import WeightsNotTaken
from runs.core.language_config import LanguageConfig

CHECKPOINTS_VARIABLE: Final = "ROLLDECK_CHECKPOINTS"
"""Names the folder in which an administrator keeps this machine's checkpoints."""
MOST_ROWS: Final = 512
"""Sequences that are generated at a time; more wait for a row, the cache has room for no more."""


class LanguagePolicy(Protocol):
    """What draws in a worker of a language run, as its weights loader and its wrapper see it."""

    server: InferenceServer
    tokenizer: Tokenizer
    context_tokens: int

    def prepare(self, tensors: Mapping[str, NDArray[Any]]) -> Any:
        """Return these weights in the form that `adopt` takes; touches nothing that draws.

        Raises:
            WeightsDoNotFit: If names or shapes are not the model's, and that can be told here.
        """

    def adopt(self, prepared: Any) -> None:
        """Take weights; `draw_with` follows in the same thread and says what they are called."""

    def draw_with(self, version: Version) -> None:
        """Draw with the weights that were adopted last, under their name.

        Raises:
            WeightsNotTaken: If what draws is away, or refuses them for now.
            WeightsDoNotFit: If they are not the model's.
        """


def policy_of(language: LanguageConfig, *, device: str, rows: int) -> LanguagePolicy:
    """Return the policy that a run describes; it draws with weights that no version has.

    Args:
        language: The run's.
        device: ``auto``, ``cpu`` or ``cuda``, for a model of our own.
        rows: Answers that are generated at a time.

    Raises:
        CheckpointUnreadable: If this machine has no such checkpoint.
        TokenizerUnusable: If the tokenizer does not fit.
        PolicyDoesNotFit: If the device or the inference server is not there.
    """
    named = os.environ.get(CHECKPOINTS_VARIABLE)
    root = Path(named) if named else None
    offered = inference_server_for(language)
    if offered is not None:
        tokenizer = tokenizer_for(language, checkpoints_folder=root)
        return ServedPolicy(offered, tokenizer, language.model.max_position_embeddings)
    # Workers share their machine; more threads than one only get in each other's way.
    torch.set_num_threads(1)
    model, tokenizer = build(language, checkpoints_folder=root, device=str(device_of(device)))
    server = TorchInferenceServer(model, rows=min(rows, MOST_ROWS))
    return EnginePolicy(server, tokenizer, model.config.max_position_embeddings)


class EnginePolicy:
    """An engine in this process."""

    def __init__(self, server: TorchInferenceServer, tokenizer: Tokenizer, context: int) -> None:
        self._engine = server
        self.server: InferenceServer = server
        self.tokenizer = tokenizer
        self.context_tokens = context
        self._adopted: Transformer | None = None

    def prepare(self, tensors: Mapping[str, NDArray[Any]]) -> Transformer:
        """Return a model with these weights; see :class:`LanguagePolicy`."""
        return self._engine.prepare(tensors)

    def adopt(self, prepared: Transformer) -> None:
        """Take the model."""
        self._adopted = prepared

    def draw_with(self, version: Version) -> None:
        """Draw with it from the next token on."""
        if self._adopted is not None:
            self._engine.adopt(self._adopted, version)
            self._adopted = None


class ServedPolicy:
    """A server that an administrator offers; it gets the weights as they were published."""

    def __init__(self, server: InferenceServer, tokenizer: Tokenizer, context: int) -> None:
        self.server = server
        self.tokenizer = tokenizer
        self.context_tokens = context
        self._adopted: Mapping[str, NDArray[Any]] | None = None

    def prepare(self, tensors: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Return them as they are: the server itself says whether they fit."""
        return tensors

    def adopt(self, prepared: Mapping[str, NDArray[Any]]) -> None:
        """Take the weights."""
        self._adopted = prepared

    def draw_with(self, version: Version) -> None:
        """Hand them over; a server that has this version from another worker keeps it.

        Raises:
            WeightsNotTaken: If the server cannot be reached, or says no.
            WeightsDoNotFit: If it says that they are not its model's.
        """
        adopted, self._adopted = self._adopted, None
        if adopted is None:
            return
        try:
            self.server.update_weights(adopted, version)
        except RuntimeError as failure:  # a client that was closed meanwhile raises a bare one
            raise WeightsNotTaken(str(failure)) from failure
