"""Backend of vLLM's weight transfer that downloads a safetensors file.

Written for vLLM 0.32. vLLM ends if weights cannot be loaded after its layers were prepared for
them. This backend therefore prepares and loads them in one step, after all checks.
"""

import hashlib
import json
import tempfile
import threading
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.model_executor.model_loader.reload import (
    finalize_layerwise_reload,
    initialize_layerwise_reload,
)

INDEX: Final = "model.safetensors.index.json"
SINGLE: Final = "model.safetensors"
OUTPUT_LAYER: Final = "lm_head.weight"
"""Weights of the output layer; models with tied embeddings do not store them."""
PIECE_BYTES: Final = 1 << 20
READ_SECONDS: Final = 60.0
"""Time limit for the connection, and for each piece of the file."""
DOWNLOADS: Final = 2
"""Maximum number of downloaded files; the oldest is deleted."""
NAMED_AT_MOST: Final = 8
"""Maximum number of differing tensors in an error."""
Shape = tuple[int, ...]


@dataclass
class Source(WeightTransferInitInfo):
    """Body of ``/init_weight_transfer_engine``: a file to download in the background."""

    url: str
    size: int
    """Size of the file in bytes."""
    sha256: str


@dataclass
class Chosen(WeightTransferUpdateInfo):
    """Body of ``/update_weights``: the downloaded file to load."""

    sha256: str


class HttpWeightTransferEngine(WeightTransferEngine):
    """Load downloaded weights into the model of one GPU."""

    init_info_cls = Source
    update_info_cls = Chosen
    supports_draft_weight_update = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Prepare the engine; see :class:`WeightTransferEngine`."""
        super().__init__(*args, **kwargs)
        self._downloads: dict[str, _Download] = {}

    def init_transfer_engine(self, init_info: Source) -> None:
        """Begin a download, unless the same file is being downloaded."""
        same = self._downloads.pop(init_info.sha256, None)
        if same is not None and same.has_failed:
            same.delete()
            same = None
        self._downloads[init_info.sha256] = same or _Download(init_info)
        while len(self._downloads) > DOWNLOADS:
            self._downloads.pop(next(iter(self._downloads))).delete()

    def start_weight_update(self) -> None:
        """Change nothing: layers are prepared when the weights have been checked."""

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Load a downloaded file into the model, after the end of its download.

        Raises:
            ValueError: If the file cannot be downloaded, or does not fit the served checkpoint.
        """
        self.receive_weights(self.parse_update_info(update_info))
        if self.device.type != "cpu":
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: Chosen) -> None:
        """Load a downloaded file; see `update_weights`."""
        download = self._downloads.get(update_info.sha256)
        if download is None:
            raise ValueError(f"no file with the SHA-256 {update_info.sha256} was downloaded")
        try:
            with safe_open(download.path(), framework="pt") as file:
                names = list(file.keys())
                self._check({name: tuple(file.get_slice(name).get_shape()) for name in names})
                initialize_layerwise_reload(self.model)
                self.model.load_weights((name, file.get_tensor(name)) for name in names)
                finalize_layerwise_reload(self.model, self.model_config)
        except SafetensorError as error:
            raise ValueError(
                f"the downloaded file is not in safetensors format: {error}"
            ) from error
        finally:
            self._downloads.pop(update_info.sha256).delete()

    def finish_weight_update(self) -> None:
        """Change nothing: the weights are in use."""

    def shutdown(self) -> None:
        """Delete all downloaded files."""
        while self._downloads:
            self._downloads.popitem()[1].delete()

    def _check(self, given: Mapping[str, Shape]) -> None:
        """Compare names and shapes with those of the served checkpoint.

        vLLM would keep the earlier values of a missing tensor.
        """
        served = _served_shapes(self.model_config)
        if differing := sorted(dict(served.items() ^ given.items())):
            named = []
            for name in differing[:NAMED_AT_MOST]:
                problem = "is missing" if name in served else "is unknown"
                if name in served and name in given:
                    problem = f"is {list(given[name])}, expected {list(served[name])}"
                named.append(f"{name[:120]} {problem}")
            more = len(differing) - len(named)
            rest = f", and {more} more" if more else ""
            raise ValueError(f"names or shapes differ: {', '.join(named)}{rest}")
        if self.device.type == "cpu" and OUTPUT_LAYER not in given:
            raise ValueError(
                f"the model has tied embeddings, without {OUTPUT_LAYER}: vLLM on a CPU would keep "
                "its earlier output layer. Use a GPU, or a model that stores the output layer"
            )


class _Download:
    """A file that a thread downloads."""

    def __init__(self, source: Source) -> None:
        """Begin the download."""
        self._source, self._failure = source, ""
        self._folder = tempfile.TemporaryDirectory(prefix="rolldeck-weights-")
        self._path = Path(self._folder.name) / SINGLE
        self._is_deleted = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def has_failed(self) -> bool:
        return bool(self._failure)

    def path(self) -> Path:
        """Return the path of the whole file; raises ValueError if the download failed."""
        self._thread.join()
        if self._failure:
            raise ValueError(self._failure)
        return self._path

    def delete(self) -> None:
        """End the download and delete the file."""
        self._is_deleted = True
        self._thread.join()
        self._folder.cleanup()

    def _run(self) -> None:
        digest, size, reason = hashlib.sha256(), 0, ""
        try:
            with (
                _WITHOUT_PROXY.open(self._source.url, timeout=READ_SECONDS) as response,
                self._path.open("wb") as file,
            ):
                while (piece := response.read(PIECE_BYTES)) and not self._is_deleted:
                    digest.update(piece)
                    size += len(piece)
                    file.write(piece)
        except (OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
        else:
            if size != self._source.size:
                reason = f"{size} bytes received, expected {self._source.size}"
            elif digest.hexdigest() != self._source.sha256:
                reason = "the SHA-256 of the file differs"
        if reason:
            self._failure = f"weights cannot be downloaded from {self._source.url}: {reason}"


_WITHOUT_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _served_shapes(model_config: Any) -> dict[str, Shape]:
    """Return the shapes of the served checkpoint by name.

    Raises:
        ValueError: If its folder has no weights in safetensors format.
    """
    folder = Path(model_config.model)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download

        name, revision = model_config.model, model_config.revision
        folder = Path(snapshot_download(name, revision=revision, local_files_only=True))
    files = {SINGLE}
    if (index := folder / INDEX).exists():
        files = set(json.loads(index.read_bytes())["weight_map"].values())
    found: dict[str, Shape] = {}
    for name in sorted(files):
        try:
            with safe_open(folder / name, framework="pt") as file:
                found |= {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118 it is no mapping
        except (FileNotFoundError, SafetensorError) as error:
            raise ValueError(f"{folder / name}: {error}") from error
    return found
