"""Weights in one file or in several with an index."""

import json
from pathlib import Path

import numpy as np
import pytest

from rolldeck import safetensors
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.inference.shared_folder import INDEX, WEIGHTS, CheckpointFiles

FIRST, LAST = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
MAP = {"a": FIRST, "b": LAST, "c": LAST}


def tensors(value: float) -> dict[str, np.ndarray]:
    return {name: np.full(at + 1, value, np.float32) for at, name in enumerate(MAP)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    parts = tensors(0)
    (tmp_path / FIRST).write_bytes(safetensors.encode({"a": parts.pop("a")}))
    (tmp_path / LAST).write_bytes(safetensors.encode(parts))
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {"total_size": 24}, "weight_map": MAP}))
    return tmp_path


def current(folder: Path) -> dict[str, np.ndarray]:
    """Return the tensors as a server reads them: each from the file that the index names."""
    weight_map = json.loads((folder / INDEX).read_text())["weight_map"]
    return {
        name: safetensors.decode((folder / file).read_bytes())[name]
        for name, file in weight_map.items()
    }


def test_several_files_are_replaced_together(folder: Path) -> None:
    files = CheckpointFiles(folder)
    assert files.shapes() == {"a": (1,), "b": (2,), "c": (3,)}

    files.write(tensors(1))

    assert files.shapes() == {"a": (1,), "b": (2,), "c": (3,)}
    assert all((value == 1).all() for value in current(folder).values())
    named = json.loads((folder / INDEX).read_text())["weight_map"]
    assert len(set(named.values())) == 2
    assert named["b"] == named["c"]


def test_the_files_of_the_version_before_stay_until_the_next_one(folder: Path) -> None:
    files = CheckpointFiles(folder)
    (folder / "consolidated.safetensors").write_bytes(b"another format")

    for value in range(1, 5):
        before = json.loads((folder / INDEX).read_text())["weight_map"].values()
        files.write(tensors(value))
        assert all((folder / name).exists() for name in before)

    # The first checkpoint and files of others stay; of four versions, two.
    assert len(list(folder.glob("*.safetensors"))) == 3 + 2 * 2


def test_an_interrupted_update_leaves_the_earlier_weights(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, replace = CheckpointFiles(folder), Path.replace

    def full(path: Path, target: Path) -> Path:
        if target.name == INDEX:
            raise OSError("no space left on device")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        files.write(tensors(1))

    assert all((value == 0).all() for value in current(folder).values())


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        ("{", f"{INDEX}: "),
        ('{"weight_map": {"a": 3}}', r"str.*weight_map"),
        ('{"weight_map": {"a": "../other.safetensors"}}', r"weight_map\.a: '\.\./other"),
        ('{"weight_map": {"a": "absent.safetensors"}}', "contains no absent.safetensors"),
        (json.dumps({"weight_map": MAP | {"d": FIRST}}), "no file contains d"),
    ],
)
def test_an_invalid_index_is_refused(folder: Path, index: str, reason: str) -> None:
    (folder / INDEX).write_text(index)

    with pytest.raises(InferenceFailed, match=reason):
        CheckpointFiles(folder).shapes()


def test_several_files_without_an_index_are_refused(folder: Path) -> None:
    (folder / INDEX).unlink()
    (folder / WEIGHTS).write_bytes(safetensors.encode(tensors(0)))

    with pytest.raises(InferenceFailed, match=f"contains {FIRST} and no {INDEX}"):
        CheckpointFiles(folder).shapes()
