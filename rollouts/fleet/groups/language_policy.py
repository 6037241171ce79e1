"""Policies of language runs: published weights are received and adopted while they sample."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from rollouts.fleet.engine.building import build, check_vocabulary, tokenizer_for
from rollouts.fleet.engine.checkpoints import read_config
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.engine.tokenizers import Tokenizer
from rollouts.fleet.engine.transformer import Transformer
from rollouts.fleet.groups.policy_context import check_stop_tokens
from rollouts.fleet.groups.torch_server import TorchInferenceServer
from rollouts.fleet.inference.contract import NOTHING, InferenceServer
from rollouts.fleet.inference.replicas import ReplicasBehind
from rollouts.fleet.inference.servers import inference_server_for
from rollouts.fleet.policies.base import device_of
from rollouts.fleet.policies.policy_protocol import WeightsRejected
from runs.config.rules.language_config import LanguageConfig

CHECKPOINTS_VARIABLE: Final = "ROLLDECK_CHECKPOINTS"
"""Environment variable with the folder of this machine's checkpoints, set by an administrator."""
MOST_ROWS: Final = 512
"""Maximum number of concurrent sequences; the cache has room for this many and others wait."""


class LanguagePolicy(ABC):
    """Policy of a language worker, as seen by its weights loader and its wrapper."""

    server: InferenceServer

    def __init__(self, server: InferenceServer, tokenizer: Tokenizer, context_tokens: int) -> None:
        self.server = server
        self.tokenizer = tokenizer
        self.context_tokens = context_tokens
        self._adopted: Any = None

    @abstractmethod
    def prepare(self, tensors: Mapping[str, NDArray[Any]]) -> Any:
        """Convert weights to the form that `adopt` takes, without affecting sampling.

        Raises:
            WeightsDoNotFit: If names or shapes do not match the model, where checked here.
        """

    def adopt(self, prepared: Any) -> None:
        """Store weights; the same thread then calls `draw_with` with their version."""
        self._adopted = prepared

    @abstractmethod
    def draw_with(self, version: Version) -> Version:
        """Sample with the weights adopted last, labelled with `version`.

        Returns:
            The version in use, which is later if another worker has loaded a later one.

        Raises:
            WeightsRejected: If the sampler is unreachable or refuses them for now.
            WeightsDoNotFit: If they do not match the model.
        """


def policy_of(
    language: LanguageConfig,
    *,
    device: str,
    rows: int,
    run: str = "",
    checkpoint: Path | None = None,
    server: InferenceServer | None = None,
    version: Version = NOTHING,
) -> LanguagePolicy:
    """Return the policy of a run.

    Args:
        language: Language configuration of the run.
        device: ``auto``, ``cpu`` or ``cuda``, for a model in this process.
        rows: Number of answers that a model in this process generates concurrently.
        run: Globally unique key of the run.
        checkpoint: Folder of a checkpoint in place of the run's; a configured inference server
            serves it and keeps its weights.
        server: Inference server in place of the configured one.
        version: Version of the initial weights of a model in this process.

    Raises:
        CheckpointUnreadable: If this machine has no such checkpoint, or it is invalid.
        TokenizerUnusable: If the tokenizer does not fit the model or the lessons.
        PolicyDoesNotFit: If the device or the inference server is missing, or the server does not
            support the lessons' sampling.
    """
    named = os.environ.get(CHECKPOINTS_VARIABLE)
    root = Path(named) if named else None
    shapes = None if checkpoint is None else read_config(checkpoint / "config.json")
    offered = server or inference_server_for(language, run=run, is_fixed=checkpoint is not None)
    if offered is not None:
        tokenizer = tokenizer_for(language, checkpoints_folder=root, checkpoint=checkpoint)
        if shapes is not None:
            check_vocabulary(language.model, tokenizer, vocab_size=shapes.vocab_size)
        check_stop_tokens(language, vocab_size=tokenizer.vocab_size)
        context = language.model if shapes is None else shapes
        kind = EnginePolicy if isinstance(offered, TorchInferenceServer) else ServedPolicy
        return kind(offered, tokenizer, context.max_position_embeddings)
    model, tokenizer = build(
        language, checkpoints_folder=root, checkpoint=checkpoint, device=str(device_of(device))
    )
    check_stop_tokens(language, vocab_size=tokenizer.vocab_size)
    engine = TorchInferenceServer(
        model, rows=min(rows, MOST_ROWS), version=version, tokenizer=tokenizer
    )
    return EnginePolicy(engine, tokenizer, model.config.max_position_embeddings)


class EnginePolicy(LanguagePolicy):
    """Policy with an engine in this process."""

    server: TorchInferenceServer

    def prepare(self, tensors: Mapping[str, NDArray[Any]]) -> Transformer:
        return self.server.prepare(tensors)

    def draw_with(self, version: Version) -> Version:
        if self._adopted is not None:
            self.server.adopt(self._adopted, version)
            self._adopted = None
        return version


class ServedPolicy(LanguagePolicy):
    """Policy on an inference server configured by an administrator."""

    def prepare(self, tensors: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Return the weights unchanged: the server checks whether they fit."""
        return tensors

    def draw_with(self, version: Version) -> Version:
        """Load the weights into the server, unless another worker already loaded this version."""
        adopted, self._adopted = self._adopted, None
        try:
            if adopted is not None:
                self.server.update_weights(adopted, version)
            active = self.server.version
        except ReplicasBehind as failure:
            raise WeightsRejected(str(failure), failure.version) from failure
        except RuntimeError as failure:  # a closed client raises a bare RuntimeError
            raise WeightsRejected(str(failure)) from failure
        return active
