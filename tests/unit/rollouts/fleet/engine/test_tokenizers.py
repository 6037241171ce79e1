import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from rollouts.fleet.engine.tokenizers import (
    AlphabetTokenizer,
    ByteTokenizer,
    ChatFormat,
    HuggingFaceTokenizer,
    TextStream,
    TokenizerUnusable,
    check_fit,
    load_tokenizer,
    save_tokenizer,
)

TURNS = [{"role": "system", "content": "add"}, {"role": "user", "content": "1+2"}]


@given(st.text())
def test_the_byte_tokenizer_decodes_every_text(text: str) -> None:
    tokenizer = ByteTokenizer()
    assert tokenizer.decode([*tokenizer.encode(text), tokenizer.end]) == text


@given(st.text(alphabet="abc+="))
def test_an_alphabet_decodes_its_texts(text: str) -> None:
    tokenizer = AlphabetTokenizer("abc+=")
    assert tokenizer.decode([*tokenizer.encode(text), tokenizer.end]) == text


def test_characters_without_a_token_are_named() -> None:
    with pytest.raises(TokenizerUnusable, match="'xy' is not in the alphabet"):
        AlphabetTokenizer("abc").encode("axby")
    with pytest.raises(TokenizerUnusable, match="repeated"):
        AlphabetTokenizer("aba")


def test_a_chat_is_written_turn_by_turn() -> None:
    chat = ChatFormat(system="[{}] ", user="{}", answer="=")

    assert chat.render(TURNS) == "[add] 1+2="
    with pytest.raises(TokenizerUnusable, match=r"messages\.0\.role: 'judge'"):
        chat.render([{"role": "judge", "content": ""}])


@pytest.mark.parametrize(
    "tokenizer", [ByteTokenizer(), AlphabetTokenizer("01+=", ChatFormat(answer="="))]
)
def test_ours_are_found_beside_a_checkpoint(
    tokenizer: ByteTokenizer | AlphabetTokenizer, tmp_path: Path
) -> None:
    save_tokenizer(tokenizer, tmp_path)
    again = load_tokenizer(tmp_path)

    assert type(again) is type(tokenizer)
    assert again.encode("0+1") == tokenizer.encode("0+1")
    assert again.render([{"role": "user", "content": "1"}]) == tokenizer.render(
        [{"role": "user", "content": "1"}]
    )


TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<ai>{% endif %}"
)


def hugging_face(folder: Path, **described: object) -> None:
    words = {word: place for place, word in enumerate(["<unk>", "<s>", "</s>", "one", "two"])}
    inner = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.add_special_tokens(["<s>", "</s>"])
    inner.save(str(folder / "tokenizer.json"))
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config | described))


def test_hugging_faces_files_are_read(tmp_path: Path) -> None:
    hugging_face(tmp_path)

    tokenizer = load_tokenizer(tmp_path)

    assert isinstance(tokenizer, HuggingFaceTokenizer)
    assert (tokenizer.encode("two one"), tokenizer.end, tokenizer.vocab_size) == ([4, 3], 2, 5)
    assert tokenizer.decode([4, 3, 2]) == "two one"
    assert tokenizer.render(TURNS) == "<s><system>add<user>1+2<ai>"


def test_a_template_is_sandboxed(tmp_path: Path) -> None:
    hugging_face(tmp_path, chat_template="{{ ''.__class__.__mro__[1].__subclasses__() }}")

    with pytest.raises(TokenizerUnusable, match=r"chat_template: .*unsafe"):
        load_tokenizer(tmp_path).render(TURNS)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", "{", "EOF|expected"),
        ("tokenizer_config.json", "{}", "eos_token is not in the vocabulary"),
        ("rolldeck_tokenizer.json", '{"kind": "word"}', "kind|Invalid enum"),
    ],
)
def test_a_damaged_file_is_refused_with_a_reason(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    hugging_face(tmp_path)
    (tmp_path / name).write_text(content)

    with pytest.raises(TokenizerUnusable, match=message):
        load_tokenizer(tmp_path)


def test_an_error_for_a_folder_without_a_tokenizer_names_the_missing_files(tmp_path: Path) -> None:
    with pytest.raises(TokenizerUnusable, match=r"neither rolldeck_tokenizer\.json nor"):
        load_tokenizer(tmp_path)


def test_a_tokenizer_larger_than_the_model_is_refused() -> None:
    check_fit(ByteTokenizer(), vocab_size=257)
    with pytest.raises(TokenizerUnusable, match="257 tokens, the model only 256"):
        check_fit(ByteTokenizer(), vocab_size=256)


@given(st.text(max_size=30), st.lists(st.text(min_size=1, max_size=3), max_size=3))
def test_a_stream_returns_complete_characters_only(text: str, stop: list[str]) -> None:
    tokens = ByteTokenizer().encode(text)
    stream = TextStream(ByteTokenizer(), stop)
    ends = [place for stop_text in stop if (place := text.find(stop_text)) >= 0]
    expected = text[: min(ends)] if ends else text

    pieces = []
    for count in range(1, len(tokens) + 1):
        pieces.append(stream.add(tokens[:count]))
        assert expected.startswith(stream.text)
    pieces.append(stream.add(tokens, is_last=True))

    assert "".join(pieces) == stream.text == expected
    assert stream.is_stopped == bool(ends)


def test_half_a_character_waits_for_its_other_half() -> None:
    stream = TextStream(ByteTokenizer())
    first, second = "é".encode()

    assert stream.add([first]) == ""
    assert stream.add([first, second]) == "é"
    cut = TextStream(ByteTokenizer())
    assert cut.add([first], is_last=True) == "\ufffd"
