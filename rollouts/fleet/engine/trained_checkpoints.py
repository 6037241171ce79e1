"""Save the newest weights of a trainer, and its optimizer state."""

from pathlib import Path

import torch

from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.lora import PolicyModel, whole
from rollouts.fleet.engine.tokenizers import (
    ByteTokenizer,
    CharTokenizer,
    Tokenizer,
    save_tokenizer,
)


class CheckpointFolder:
    """Folder of the newest weights, in the inference server's format, and the optimizer state."""

    def __init__(self, folder: Path | None) -> None:
        """Store the folder; with None nothing is saved."""
        self._folder = folder

    def save(
        self,
        model: PolicyModel,
        optimizer: torch.optim.Optimizer,
        tokenizer: Tokenizer,
        *,
        step: int,
    ) -> None:
        """Write version `step`, each file atomically; an adapter is merged into its model."""
        if self._folder is None:
            return
        checkpoints.save(whole(model), self._folder)
        if isinstance(tokenizer, ByteTokenizer | CharTokenizer):
            save_tokenizer(tokenizer, self._folder)
        part = self._folder / "optimizer.pt.part"
        torch.save({"step": step, "state": optimizer.state_dict()}, part)
        part.replace(self._folder / "optimizer.pt")

    def restore(self, optimizer: torch.optim.Optimizer, *, step: int) -> bool:
        """Load the optimizer's state of version `step`; return whether it exists."""
        path = self._folder / "optimizer.pt" if self._folder else None
        kept = (
            torch.load(path, weights_only=True, map_location="cpu")
            if path and path.exists()
            else {}
        )
        if kept.get("step") != step:
            return False
        optimizer.load_state_dict(kept["state"])
        return True
