"""Adapters of the stand-ins: each is served by an engine of its own."""

import json
from pathlib import Path

from safetensors.torch import load_file

from rollouts.fleet.engine.checkpoints import assign, merged, named_tensors
from rollouts.fleet.engine.engine import Engine
from rollouts.fleet.engine.openai_api import OpenAiApi
from rollouts.fleet.engine.serving import EngineThread
from rollouts.fleet.engine.tokenizers import Tokenizer
from rollouts.fleet.engine.transformer import Transformer
from rollouts.fleet.inference.adapters import CONFIG, WEIGHTS


class AdapterRefused(Exception):
    """The server cannot load the adapter; the text has the reason."""


class LoadedAdapters:
    """Adapters of a model by name."""

    def __init__(self, base: Transformer, tokenizer: Tokenizer, *, max_rank: int) -> None:
        self._base, self._tokenizer, self._max_rank = base, tokenizer, max_rank
        self.apis: dict[str, OpenAiApi] = {}

    def load(self, name: str, folder: Path) -> None:
        """Load an adapter.

        Raises:
            AdapterRefused: If its rank is above the limit, or a file is missing.
        """
        try:
            described = json.loads((folder / CONFIG).read_text())
        except OSError as error:
            raise AdapterRefused(str(error)) from error
        rank = described["r"]
        if rank > self._max_rank:
            text = f"LoRA rank {rank} is greater than max_lora_rank {self._max_rank}."
            raise AdapterRefused(text)
        model = Transformer(self._base.config).eval()
        tensors = load_file(folder / WEIGHTS)
        scale = described["lora_alpha"] / rank
        assign(model, merged(dict(named_tensors(self._base)), tensors, scale))
        context = model.config.max_position_embeddings
        thread = EngineThread(Engine(model, rows=8, tokenizer=self._tokenizer), context=context)
        self.apis[name] = OpenAiApi(thread, tokenizer=self._tokenizer, model=name, context=context)

    def close(self) -> None:
        """End the engines."""
        for api in self.apis.values():
            api._engine.close()
