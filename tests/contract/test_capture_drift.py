"""Drift of a real tokenizer: the policy samples letters, the server encodes them as pairs."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models

from buffer.capture.models import CaptureSession
from buffer.capture.services import assembled
from rollouts.fleet.engine.tokenizers import load_tokenizer
from tests.contract.capture_setup import Stand, group, small_engine, stand_with, trained

pytestmark = pytest.mark.django_db(transaction=True)

TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'user' %}U{{ m.content }}"
    "{% else %}A{{ m.content }}<end>{% endif %}{% endfor %}A"
)
# The first seed whose answer drifts, of the CPU build of torch 2.13; a search takes a minute.
DRIFTED_SEED = 181


def write_tokenizer(folder: Path) -> None:
    """Write a byte-pair encoding of two letters and their pairs."""
    letters = ["U", "A", "x", "y"]
    pairs = list(itertools.product("xy", repeat=2))
    words = [*letters, *("".join(pair) for pair in pairs)]
    vocabulary = {word: place for place, word in enumerate(words)}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    inner.decoder = decoders.Fuse()
    inner.add_special_tokens(["<end>"])
    inner.save(str(folder / "tokenizer.json"))
    described = {"eos_token": "<end>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(described))


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    write_tokenizer(tmp_path)
    with small_engine(load_tokenizer(tmp_path)) as upstream, stand_with(upstream) as made:
        yield made


def turn(stand: Stand, session: str, messages: list[Any], **fields: Any) -> Any:
    """Add an answer to a conversation; return the choice with its tokens."""
    response = stand.agent(session).chat.completions.create(
        model="policy", messages=messages, max_tokens=12, **fields
    )
    (choice,) = response.choices
    return choice


def has_drifted(stand: Stand, text: str, tokens: list[int]) -> bool:
    """Return whether the server encodes an answer otherwise than the policy sampled it."""
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": text}]
    prompt = turn(stand, "probe", messages).prompt_token_ids
    return prompt[3 : 3 + len(tokens)] != tokens


def test_a_drifted_conversation_is_one_sequence_of_sampled_tokens(stand: Stand) -> None:
    for seed in (DRIFTED_SEED, *range(200)):
        messages: list[Any] = [{"role": "user", "content": "x"}]
        choice = turn(stand, f"s{seed}", messages, seed=seed)
        text = choice.message.content
        is_clean = choice.finish_reason == "stop" and text and set(text) <= {"x", "y"}
        if is_clean and has_drifted(stand, text, choice.token_ids):
            break
    session = f"s{seed}"
    messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "y"}]
    later = turn(stand, session, messages, seed=1)

    made = assembled(CaptureSession.objects.get(name=session))
    assert (made.repairs, len(made.sequences), made.gaps) == (1, 1, [])
    assert stand.score(**{session: 1.0}).sequences == 1
    row = group()
    assert trained(row, 0) == [*choice.token_ids, *later.token_ids]
    assert row["group_overrides"]["repairs"] == {session: 1}
    assert row["tokens"][0][: 3 + len(choice.token_ids)] == [
        *choice.prompt_token_ids,
        *choice.token_ids,
    ]


def test_an_answer_that_the_agent_changed_begins_a_new_sequence(stand: Stand) -> None:
    messages: list[Any] = [{"role": "user", "content": "x"}]
    turn(stand, "one", messages, seed=1)
    messages += [{"role": "assistant", "content": "yxyxyx"}, {"role": "user", "content": "y"}]
    turn(stand, "one", messages, seed=1)

    assert stand.score(one=0.0).sequences == 2
    assert group()["group_overrides"]["repairs"] == {"one": 0}
