"""Every invalid field of a configuration is reported at once, by its path."""

from typing import Any

import pytest

from runs.config.rules import run_config
from runs.config.rules.run_config import InvalidRunConfig, RunConfig
from tests.run_config_fields import leaves, wrong_values


def errors_of(raw: object) -> dict[str, str]:
    with pytest.raises(InvalidRunConfig) as caught:
        run_config.parse(raw)
    return {each.field: each.message for each in (caught.value, *caught.value.others)}


@pytest.mark.parametrize("is_language", [False, True])
def test_a_configuration_with_every_field_wrong_names_every_field(is_language: bool) -> None:
    raw = wrong_values(is_language=is_language)

    errors = errors_of(raw)

    assert [path.partition("[")[0] for path in errors] == [path for path, _ in leaves(raw)]
    assert len(errors) > 35


def test_unknown_and_missing_fields_are_named_among_the_invalid_ones() -> None:
    raw = {
        "seed": -1,
        "fleet": {"wokers": 2},
        "language": {
            "lessons": {
                "add": {},
                "a b": {"spec": "task:sort", "requires": [{"lesson": "add"}, {"min_success": 2}]},
            }
        },
    }

    errors = errors_of(raw)

    assert set(errors) == {
        "fleet.wokers",
        "language.lessons.add.spec",
        "language.lessons.a b",
        "language.lessons.a b.requires[1].lesson",
        "language.lessons.a b.requires[1].min_success",
        "seed",
    }
    assert errors["language.lessons.add.spec"] == "required"


def test_every_contradiction_is_named() -> None:
    raw = {
        "fleet": {"envs_per_worker": 4, "inference_batch_size": 5, "device": "cuda"},
        "buffer": {"batch_size": 16, "replay": {"fragments_per_chunk": 3, "max_chunks": 1}},
    }

    assert list(errors_of(raw)) == [
        "fleet.inference_batch_size",
        "fleet.device",
        "buffer.replay.fragments_per_chunk",
        "buffer.replay.max_chunks",
    ]


def test_invalid_fields_have_their_defaults_in_further_checks() -> None:
    raw: dict[str, Any] = {
        "policy": {"kind": "gru", "hidden_sizes": [64, 0]},
        "fleet": {"num_workers": 3, "num_cpus_per_worker": -1},
        "seeed": 1,
    }

    config, errors = run_config.examined(raw)

    assert config is not None
    assert (config.policy.kind, config.policy.hidden_sizes) == ("gru", [64, 64])
    assert (config.fleet.num_workers, config.fleet.num_cpus_per_worker) == (3, 0.25)
    assert [error.field for error in errors] == [
        "fleet.num_cpus_per_worker",
        "policy.hidden_sizes[1]",
        "seeed",
    ]
    assert run_config.examined([])[0] is None
    assert run_config.examined({"seed": -1})[0] == RunConfig()
