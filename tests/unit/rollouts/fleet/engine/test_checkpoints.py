"""Checkpoints have Hugging Face's names and shapes, and errors name the problem."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from rollouts.fleet.engine.checkpoints import (
    CheckpointUnreadable,
    assign,
    load,
    named_tensors,
    save,
)
from tests.unit.rollouts.fleet.engine.small_models import small_model

TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
SHAPES: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": {},
    "Qwen2ForCausalLM": {"attention_bias": True},
    "Qwen3ForCausalLM": {"qk_norm": True, "tie_word_embeddings": False},
}


@pytest.mark.parametrize("architecture", SHAPES)
def test_a_saved_checkpoint_is_loaded(architecture: str, tmp_path: Path) -> None:
    model = small_model(**SHAPES[architecture])

    save(model, tmp_path)
    again = load(tmp_path)

    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [architecture]
    assert again.config == model.config
    with torch.inference_mode():
        assert torch.equal(again(TOKENS), model(TOKENS))


def test_tensors_have_hugging_faces_names_and_shapes(tmp_path: Path) -> None:
    save(small_model(**SHAPES["Qwen2ForCausalLM"]), tmp_path)

    shapes = {name: tuple(x.shape) for name, x in load_file(tmp_path / "model.safetensors").items()}

    first = {name: shape for name, shape in shapes.items() if ".1." not in name}
    assert first == {
        "model.embed_tokens.weight": (40, 32),
        "model.layers.0.input_layernorm.weight": (32,),
        "model.layers.0.self_attn.q_proj.weight": (32, 32),
        "model.layers.0.self_attn.k_proj.weight": (16, 32),
        "model.layers.0.self_attn.v_proj.weight": (16, 32),
        "model.layers.0.self_attn.q_proj.bias": (32,),
        "model.layers.0.self_attn.k_proj.bias": (16,),
        "model.layers.0.self_attn.v_proj.bias": (16,),
        "model.layers.0.self_attn.o_proj.weight": (32, 32),
        "model.layers.0.post_attention_layernorm.weight": (32,),
        "model.layers.0.mlp.gate_proj.weight": (48, 32),
        "model.layers.0.mlp.up_proj.weight": (48, 32),
        "model.layers.0.mlp.down_proj.weight": (32, 48),
        "model.norm.weight": (32,),
    }
    assert len(shapes) == 2 * 12 + 2


def test_several_files_with_an_index_are_one_checkpoint(tmp_path: Path) -> None:
    model = small_model()
    save(model, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    where = {name: f"part-{place % 2}.safetensors" for place, name in enumerate(tensors)}
    for file in set(where.values()):
        save_file({n: x for n, x in tensors.items() if where[n] == file}, tmp_path / file)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))

    with torch.inference_mode():
        assert torch.equal(load(tmp_path)(TOKENS), model(TOKENS))


def change_config(folder: Path, **changed: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def drop_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors")


DAMAGES: dict[str, tuple[Any, str]] = {
    "no config": (lambda at: (at / "config.json").unlink(), "config.json"),
    "no JSON": (lambda at: (at / "config.json").write_text("{"), "config.json"),
    "another architecture": (
        lambda at: change_config(at, architectures=["MambaForCausalLM"]),
        "MambaForCausalLM is not one of Llama",
    ),
    "scaled positions": (
        lambda at: change_config(at, rope_scaling={"type": "yarn"}),
        "rope_scaling",
    ),
    "a field of another type": (lambda at: change_config(at, vocab_size="many"), "vocab_size"),
    "other shapes": (
        lambda at: change_config(at, intermediate_size=50),
        r"mlp.gate_proj.weight: shape \(48, 32\), expected \(50, 32\)",
    ),
    "a tensor less": (drop_tensor, "tensors are missing: model.layers.1.mlp.up_proj.weight"),
    "no weights": (lambda at: (at / "model.safetensors").unlink(), "No such file"),
    "half a file": (
        lambda at: (at / "model.safetensors").write_bytes(
            (at / "model.safetensors").read_bytes()[:-100]
        ),
        "model|header|buffer",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_checkpoint_is_refused_with_a_reason(
    damage: Any, message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    save(small_model(), folder)
    damage(folder)

    with pytest.raises(CheckpointUnreadable, match=message):
        load(folder)


def test_weights_that_do_not_fit_leave_the_model_unchanged() -> None:
    model = small_model()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    tensors = dict(named_tensors(small_model(seed=1)))
    tensors["model.norm.weight"] = torch.zeros(5)

    with pytest.raises(CheckpointUnreadable, match=r"model\.norm\.weight"):
        assign(model, tensors)

    assert all(torch.equal(before[name], x) for name, x in model.state_dict().items())
