"""Split the weights of a checkpoint into several files with an index."""

import json
from pathlib import Path

from safetensors.torch import load_file, save_file

from rollouts.fleet.inference.shared_folder import INDEX, WEIGHTS

FILES = 3


def shard(folder: Path) -> None:
    """Replace the only weights file of a folder by several, as large models are published."""
    tensors = load_file(folder / WEIGHTS)
    weight_map = {}
    for at in range(FILES):
        name = f"model-{at + 1:05}-of-{FILES:05}.safetensors"
        part = dict(list(tensors.items())[at::FILES])
        save_file(part, folder / name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(part, name)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    (folder / WEIGHTS).unlink()
