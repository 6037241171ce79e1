"""Access rules of saved presets, and detection of secrets."""

from itertools import product

import pytest

from runs.config.rules import run_config
from runs.config.rules.preset_rules import may_change, may_see, secret_in
from runs.saved.rules import Access


@pytest.mark.parametrize(
    ("access", "owner", "operator", "admin", "may"),
    [
        ("private", True, True, False, "see change"),
        ("private", False, True, True, ""),
        ("shared", True, True, False, "see change"),
        ("shared", False, True, False, "see"),
        ("shared", False, True, True, "see change"),
        ("open", False, True, False, "see change"),
        ("open", False, False, False, "see"),
        # The owner is no longer an operator.
        ("private", True, False, False, "see"),
    ],
)
def test_the_rights_on_presets_match_the_table(
    access: str, owner: bool, operator: bool, admin: bool, may: str
) -> None:
    changes = may_change(access, is_owner=owner, is_operator=operator, is_admin=admin)
    allowed = {"see": may_see(access, is_owner=owner), "change": changes}

    assert [right for right, is_allowed in allowed.items() if is_allowed] == may.split()


def test_invisible_presets_cannot_be_changed() -> None:
    for access, owner, operator, admin in product(Access, *[(False, True)] * 3):
        if may_change(access, is_owner=owner, is_operator=operator, is_admin=admin):
            assert may_see(access, is_owner=owner)


def in_kwargs(**kwargs: object) -> dict[str, object]:
    return {"environment": {"kwargs": kwargs}}


@pytest.mark.parametrize(
    "kwargs",
    [
        {"api_key": "abc"},
        {"apiKey": "abc"},
        {"OPENAI-API-KEY": "abc"},
        {"db_password": "abc"},
        {"client_secret": "abc"},
        {"hf_token": "abcdefghijklmnop"},
        {"anything": "hf_abcdefghijkl"},
        {"anything": "Bearer abcdefghijkl"},
        {"url": "postgres://me:pass@host/db"},
        {"key_file": "-----BEGIN RSA PRIVATE KEY-----"},
        {"deep": [{"list": ["rd_0123abcd_abcdefghijkl"]}]},
    ],
)
def test_a_secret_is_detected_by_its_name_or_value(kwargs: dict[str, object]) -> None:
    secret = secret_in(in_kwargs(**kwargs))

    assert secret is not None
    assert secret.startswith("environment.kwargs.")


@pytest.mark.parametrize(
    "kwargs",
    [
        {"max_tokens": 512},
        {"eos_token": "</s>"},
        {"pad_token": "<|endoftext|>"},
        {"tokenizer": "meta/llama-with-a-long-name"},
        {"stop": ["token", "secret"]},
        {"password": ""},
        {"api_key": "$OPENAI_API_KEY"},
        {"url": "http://judge:8000/v1"},
        {"keys": ["a", "b"]},
    ],
)
def test_similar_names_are_not_secrets(kwargs: dict[str, object]) -> None:
    assert secret_in(in_kwargs(**kwargs)) is None


def test_no_built_in_preset_resembles_one_with_a_secret() -> None:
    for _, config in run_config.PRESETS.values():
        assert secret_in(run_config.to_builtins(config)) is None
