"""A fresh model gets a beginning from demonstrations."""

import torch

from rollouts.core.tasks import Addition, Calculator, Reverse
from rollouts.fleet.language.building import Built
from rollouts.fleet.language.imitation import UNTRAINED, demonstrate, imitate
from rollouts.fleet.language.tokenizers import CharTokenizer
from rollouts.fleet.language.transformer import Transformer
from tests.unit.rollouts.fleet.language.small_models import small_config


def test_only_what_the_policy_is_to_say_is_learnt() -> None:
    tokenizer = CharTokenizer(Calculator.alphabet)

    shown = demonstrate(Calculator(digits=1), 3, tokenizer, seed=0)

    said = [token for token, label in zip(*shown, strict=True) if label != UNTRAINED]
    assert said.count(tokenizer.end) == 3
    question, rest = tokenizer.decode(shown.tokens).split(";", 1)
    assert tokenizer.decode(said).startswith("?" + question.partition("+")[0])
    assert rest.count("=") == 2
    assert [label for label in shown.labels if label != UNTRAINED] == said


def test_a_model_imitates_until_every_task_succeeds_as_often_as_wanted() -> None:
    tokenizer = CharTokenizer("0123456789+=>abcd")
    torch.manual_seed(0)
    model = Transformer(small_config(vocab_size=tokenizer.vocab_size))
    tasks = {"reverse": Reverse(length=2, letters=4), "add": Addition(digits=1)}

    success = imitate(Built(model, tokenizer), tasks, seed=0, until_success=0.2)

    assert set(success) == {"reverse", "add"}
    assert all(0.2 <= share < 0.6 for share in success.values())


def test_imitation_ends_even_if_nothing_succeeds() -> None:
    tokenizer = CharTokenizer("0123456789+=")
    model = Transformer(small_config(vocab_size=tokenizer.vocab_size))

    success = imitate(Built(model, tokenizer), {"add": Addition(digits=4)}, seed=0, most_steps=2)

    assert success["add"] < 0.1
