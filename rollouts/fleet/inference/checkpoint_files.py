"""Weights of a checkpoint folder: one safetensors file, or several with an index.

The layout is that of the served model. Several files are written under new names and become
current together, with their index, so a server that starts meanwhile never reads two versions.
"""

import os
import re
import secrets
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, Final

import msgspec
from msgspec import Struct

from rolldeck import safetensors
from rolldeck.wire import InvalidMessage
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.inference.weights import encoded
from rollouts.fleet.policies.policy_protocol import Shape

WEIGHTS: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"
WRITTEN: Final = re.compile(r"model-[0-9a-f]{8}-\d{5}-of-\d{5}\.safetensors(\.part)?")
"""Names of files that are written for a folder with an index."""


class _Metadata(Struct, frozen=True):
    total_size: int | float = 0


class _Index(Struct, frozen=True):
    weight_map: dict[str, str]
    metadata: _Metadata = _Metadata()


class CheckpointFiles:
    """Files of the weights in a folder."""

    def __init__(self, folder: Path) -> None:
        """Name the folder; nothing is read."""
        self._folder = folder

    def shapes(self) -> dict[str, Shape]:
        """Return the shapes by name in the headers of the current files.

        Raises:
            InferenceFailed: If a file is missing, invalid or superfluous.
        """
        index = self._index()
        if index is None:
            self._check_single()
            return self._shapes_in(WEIGHTS)
        found: dict[str, Shape] = {}
        for name in sorted(set(index.weight_map.values())):
            found |= self._shapes_in(name)
        if missing := sorted(index.weight_map.keys() - found):
            raise InferenceFailed(f"weights_directory: {INDEX}: no file contains {missing[0]}")
        return {name: found[name] for name in index.weight_map}

    def write(self, tensors: Mapping[str, Any]) -> None:
        """Replace the weights; the number of files stays.

        The files of the version before are kept until the next one, for servers that read them.

        Args:
            tensors: Tensors with the names of the current files.

        Raises:
            OSError: If a file cannot be written; the earlier weights stay current.
        """
        index = self._index()
        if index is None:
            write_whole(self._folder / WEIGHTS, encoded(tensors))
            return
        self._delete_all_but(set(index.weight_map.values()))
        shards = defaultdict[str, dict[str, Any]](dict)
        for name, tensor in tensors.items():
            shards[index.weight_map[name]][name] = tensor
        names = {
            file: f"model-{secrets.token_hex(4)}-{at:05}-of-{len(shards):05}.safetensors"
            for at, file in enumerate(sorted(shards), start=1)
        }
        size = 0
        for file, shard in shards.items():
            content = encoded(shard)
            write_whole(self._folder / names[file], content)
            size += len(content)
        weight_map = {name: names[file] for name, file in index.weight_map.items()}
        renewed = _Index(weight_map=weight_map, metadata=_Metadata(total_size=size))
        write_whole(self._folder / INDEX, msgspec.json.encode(renewed))

    def _index(self) -> _Index | None:
        """Return the index of several files; None for a single file."""
        try:
            index = msgspec.json.decode((self._folder / INDEX).read_bytes(), type=_Index)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, OSError) as error:
            raise InferenceFailed(f"weights_directory: {INDEX}: {error}") from error
        for name, file in index.weight_map.items():
            if PurePath(file).name != file or not file.endswith(".safetensors"):
                raise InferenceFailed(
                    f"weights_directory: {INDEX}: weight_map.{name}: {file!r} is not a "
                    "safetensors file of the folder"
                )
        return index

    def _check_single(self) -> None:
        """Refuse further files: servers read each one of a folder without an index."""
        others = sorted(p.name for p in self._folder.glob("*.safetensors") if p.name != WEIGHTS)
        if others:
            raise InferenceFailed(
                f"weights_directory contains {others[0]} and no {INDEX}; remove every file but "
                f"{WEIGHTS}"
            )

    def _delete_all_but(self, current: set[str]) -> None:
        """Delete files that `write` wrote and that are not current."""
        for path in self._folder.iterdir():
            if WRITTEN.fullmatch(path.name) and path.name not in current:
                path.unlink(missing_ok=True)

    def _shapes_in(self, name: str) -> dict[str, Shape]:
        """Return the shapes by name in the header of a safetensors file."""
        try:
            with (self._folder / name).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                header = safetensors.read_header(file, file_bytes=size)
        except FileNotFoundError:
            raise InferenceFailed(
                f"weights_directory contains no {name}; it must be the folder of the served model"
            ) from None
        except InvalidMessage as error:
            raise InferenceFailed(f"weights_directory: {name}: {error}") from error
        return {tensor.name: tensor.shape for tensor in header.tensors}


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that replaces an earlier one at once, and is on disk afterwards."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
