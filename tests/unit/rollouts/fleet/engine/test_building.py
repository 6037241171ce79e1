"""Models and tokenizers follow from a run's configuration, and behavior cloning trains new ones."""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from rollouts.fleet.datasets.dataset_task import DatasetTask
from rollouts.fleet.engine.building import (
    BATCH,
    REHEARSED,
    UNTRAINED,
    Built,
    build,
    clone_behavior,
    demonstrate,
    tasks_of_batch,
)
from rollouts.fleet.engine.checkpoints import CheckpointUnreadable, save
from rollouts.fleet.engine.tokenizers import AlphabetTokenizer, TokenizerUnusable, save_tokenizer
from rollouts.fleet.engine.transformer import Transformer
from rollouts.tasks.rules.dataset_config import parse
from rollouts.tasks.rules.task import CALL, Addition, Reverse, Shopping, Task
from runs.config.rules.language_config import LanguageConfig
from tests.unit.rollouts.fleet.datasets.dataset_files import write_jsonl
from tests.unit.rollouts.fleet.engine.small_models import small_config, small_model

SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
}


def language(*specs: str, **model: Any) -> LanguageConfig:
    raw = {
        "lessons": {f"lesson-{place}": {"spec": spec} for place, spec in enumerate(specs)},
        "model": SMALL | model,
    }
    return msgspec.convert(raw, LanguageConfig)


def test_a_new_model_has_a_token_for_each_character_of_its_lessons() -> None:
    model, tokenizer = build(language("task:sort", "task:addition"))

    assert tokenizer.decode(tokenizer.encode("12+34=46:")) == "12+34=46:"
    assert model.config.vocab_size == tokenizer.vocab_size == len("0123456789+=:") + 1
    assert (model.config.hidden_size, model.config.head_dim) == (16, 8)
    assert not model.training


def test_turns_follow_each_other_with_nothing_in_between() -> None:
    tokenizer = build(language("task:shopping")).tokenizer
    turns = [("user", "pay?\n"), ("assistant", "Ana pays 3 coins."), ("user", "error")]

    shown = tokenizer.render([{"role": role, "content": text} for role, text in turns])

    assert shown == "pay?\nAna pays 3 coins.error"


def test_the_byte_tokenizer_encodes_any_text() -> None:
    model, tokenizer = build(language("verifiers:maths", tokenizer="bytes"))

    assert tokenizer.encode("é") == list("é".encode())
    assert model.config.vocab_size == 257


def test_a_checkpoint_has_shapes_and_optionally_a_tokenizer(tmp_path: Path) -> None:
    own = build(language("task:sort")).tokenizer
    mine = small_model(vocab_size=own.vocab_size)
    save(mine, tmp_path / "team" / "mine")
    save_tokenizer(own, tmp_path / "team" / "mine")  # type: ignore[arg-type]

    for kind in ("alphabet", "checkpoint"):
        model, tokenizer = build(
            language("task:sort", checkpoint="team/mine", tokenizer=kind),
            checkpoints_folder=tmp_path,
        )
        assert model.embed.weight.equal(mine.embed.weight)
        assert tokenizer.encode("12") == own.encode("12")


def test_the_alphabet_of_other_lessons_is_refused(tmp_path: Path) -> None:
    save(small_model(vocab_size=40), tmp_path / "mine")
    lessons = language("task:sort", checkpoint="mine", tokenizer="alphabet")

    with pytest.raises(TokenizerUnusable, match="has 12 tokens, the model 40: use the lessons"):
        build(lessons, checkpoints_folder=tmp_path)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"checkpoint": "none"}, "model.checkpoint: none does not exist on this machine"),
        (
            {"hidden_size": 17},
            "model.hidden_size: 17 must be an even multiple of num_attention_heads",
        ),
        (
            {"hidden_size": 10},
            "model.hidden_size: 10 must be an even multiple of num_attention_heads",
        ),
        (
            {"num_attention_heads": 4, "num_key_value_heads": 3},
            "model.num_key_value_heads: 3 does not divide num_attention_heads",
        ),
    ],
)
def test_an_invalid_model_is_refused(model: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointUnreadable, match=message):
        build(language("task:sort", **model))


@pytest.mark.parametrize(
    ("spec", "tokenizer", "message"),
    [
        ("verifiers:maths", "alphabet", "lessons.lesson-0.spec: verifiers:maths is unknown"),
        ("task:sort", "checkpoint", "model.tokenizer: 'checkpoint' requires model.checkpoint"),
    ],
)
def test_an_invalid_tokenizer_is_refused(spec: str, tokenizer: str, message: str) -> None:
    with pytest.raises(TokenizerUnusable, match=message):
        build(language(spec, tokenizer=tokenizer))


def test_a_checkpoint_with_too_few_tokens_is_refused(tmp_path: Path) -> None:
    save(small_model(vocab_size=4), tmp_path / "mine")

    with pytest.raises(TokenizerUnusable, match="the tokenizer has 12 tokens, the model only 4"):
        build(language("task:sort", checkpoint="mine"), checkpoints_folder=tmp_path)


def test_only_tokens_of_the_policy_are_learnt() -> None:
    tokenizer = AlphabetTokenizer(Shopping.alphabet)

    shown = demonstrate(Shopping(goods=1), 3, tokenizer, seed=0)

    answer = [token for token, label in zip(*shown, strict=True) if label != UNTRAINED]
    assert answer.count(tokenizer.end) == 2
    assert tokenizer.decode(answer).startswith(CALL[0])
    assert "<tool_response>" in tokenizer.decode(shown.tokens)
    assert "<tool_response>" not in tokenizer.decode(answer)
    assert [label for label in shown.labels if label != UNTRAINED] == answer


def test_the_tokens_of_a_prompt_are_demonstrated_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLDECK_DATASETS", str(tmp_path))
    write_jsonl(tmp_path / "sums.jsonl", [{"prompt": [3, 10, 1], "answer": "4"}] * 2)
    task = DatasetTask("sums.jsonl", parse({}))
    tokenizer = AlphabetTokenizer("0123456789+")

    shown = demonstrate(task, 0, tokenizer, seed=0)

    assert shown.tokens == [3, 10, 1, 4, tokenizer.end]
    assert shown.labels == [UNTRAINED] * 3 + [4, tokenizer.end]
    with pytest.raises(TokenizerUnusable, match="token 10 is not one of the tokenizer's 10"):
        demonstrate(task, 0, AlphabetTokenizer("012345678"), seed=0)


def test_cloning_continues_until_every_task_has_the_success_rate() -> None:
    tokenizer = AlphabetTokenizer("0123456789+=>abcd")
    torch.manual_seed(0)
    model = Transformer(small_config(vocab_size=tokenizer.vocab_size))
    tasks = {"reverse": Reverse(length=2, letters=4), "add": Addition(digits=1)}

    success = clone_behavior(Built(model, tokenizer), tasks, seed=0, until_success=0.2)

    assert set(success) == {"reverse", "add"}
    assert all(0.2 <= share < 0.6 for share in success.values())


def greedy_success(built: Built, task: Task, *, problems: int = 200) -> float:
    """Return how many unseen demonstrations are the model's greedy answers."""
    right = 0
    for number in range(problems):
        shown = demonstrate(task, number, built.tokenizer, seed=99)
        with torch.no_grad():
            predicted = built.model(torch.tensor([shown.tokens[:-1]])).argmax(-1)[0].tolist()
        expected = shown.labels[1:]
        right += all(
            label in (UNTRAINED, other) for label, other in zip(expected, predicted, strict=True)
        )
    return right / problems


def test_an_easier_task_is_not_forgotten() -> None:
    tokenizer = AlphabetTokenizer("abcdefgh>")
    torch.manual_seed(0)
    built = Built(Transformer(small_config(vocab_size=tokenizer.vocab_size)), tokenizer)
    # Learning to end later can undo learning to end earlier.
    tasks = {"two": Reverse(length=2, letters=8), "three": Reverse(length=3, letters=8)}

    success = clone_behavior(built, tasks, seed=0, until_success=0.5)

    assert min(success.values()) >= 0.5
    built.model.eval()
    for name, task in tasks.items():
        assert greedy_success(built, task) > 0.4, name


def test_a_quarter_of_every_batch_is_of_all_tasks_in_turn() -> None:
    counted = Counter(tasks_of_batch(0, every=["a", "b", "c", "d"], left=["c"]))

    assert counted == {"a": 8, "b": 8, "c": 8 + BATCH - REHEARSED, "d": 8}


@pytest.mark.parametrize("count", [1, 50, 300])
def test_with_more_tasks_than_batch_rows_all_are_shown_eventually(count: int) -> None:
    tasks = [f"task-{number}" for number in range(count)]

    batches = [tasks_of_batch(step, every=tasks, left=tasks) for step in range(4)]

    assert {len(batch) for batch in batches} == {BATCH}
    assert {name for batch in batches for name in batch} == set(tasks)


def test_cloning_ends_without_success() -> None:
    tokenizer = AlphabetTokenizer("0123456789+=")
    model = Transformer(small_config(vocab_size=tokenizer.vocab_size))

    success = clone_behavior(
        Built(model, tokenizer), {"add": Addition(digits=4)}, seed=0, most_steps=2
    )

    assert success["add"] < 0.1
