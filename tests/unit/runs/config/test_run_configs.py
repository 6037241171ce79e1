from typing import Any

import pytest

from runs.config.rules import extensions, run_config
from runs.config.rules.run_config import PRESETS, InvalidRunConfig, RunConfig
from runs.config.rules.sections import BufferConfig, ReplayConfig, replay_of
from web.rules import json_shape


def test_an_empty_configuration_means_the_defaults() -> None:
    assert run_config.parse({}) == RunConfig()


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_preset_is_stored_and_read_unchanged(name: str) -> None:
    config = PRESETS[name][1]

    assert run_config.parse(run_config.to_builtins(config)) == config


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_preset_has_an_environment_that_fleets_can_create(name: str) -> None:
    extensions.check_environment(PRESETS[name][1].environment.spec)


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"buffer": {"batch_size": 0}}, "buffer.batch_size"),
        ({"buffer": {"batch_size": "8"}}, "buffer.batch_size"),
        ({"fleet": {"num_workers": 1.5}}, "fleet.num_workers"),
        ({"policy": {"hidden_sizes": [64, 0]}}, "policy.hidden_sizes[1]"),
        ({"policy": {"kind": ""}}, "policy.kind"),
        ({"policy": {"kind": "gru", "recurrent_units": 0}}, "policy.recurrent_units"),
        ({"policy": {"kind": "cnn", "channels": []}}, "policy.channels"),
        ({"environment": {"spec": "no colon"}}, "environment.spec"),
        ({"environment": {"info": "cost"}}, "environment.info"),
        ({"environment": {"info": [f"n{n}" for n in range(17)]}}, "environment.info"),
        ({"environment": {"info": ["a", 1]}}, "environment.info[1]"),
        ({"environment": {"info": ["a", ""]}}, "environment.info[1]"),
        ({"environment": {"info": ["a", "x" * 65]}}, "environment.info[1]"),
        ({"environment": {"info": ["a", "50%"]}}, "environment.info[1]"),
        ({"environment": {"info": ["a", "b\x00"]}}, "environment.info[1]"),
        ({"environment": {"info": ["a", "b\n"]}}, "environment.info[1]"),
        ({"environment": {"info": ["a", "b", "a"]}}, "environment.info[2]"),
        ({"environment": {"info": ["a", "b..c"]}}, "environment.info[1]"),
        ({"environment": {"info": ["a."]}}, "environment.info[0]"),
        ({"environment": {"info": [".a"]}}, "environment.info[0]"),
        ({"environment": {"info": [" a"]}}, "environment.info[0]"),
        ({"environment": {"info": ["_cost"]}}, "environment.info[0]"),
        ({"environment": {"info": ["episode._r"]}}, "environment.info[0]"),
        ({"environment": {"info": ["final_info.score"]}}, "environment.info[0]"),
        ({"environment": {"info": ["final_obs"]}}, "environment.info[0]"),
        (
            {
                "environment": {"info": ["cost"]},
                "language": {"lessons": {"add": {"spec": "task:addition"}}},
            },
            "environment.info",
        ),
        ({"fleet": {"device": "tpu"}}, "fleet.device"),
        ({"fleet": {"placement": "scatter"}}, "fleet.placement"),
        ({"fleet": {"placement": "pack", "num_cpus_per_worker": 0}}, "fleet.placement"),
        ({"fleet": {"num_gpus_per_worker": 1.5}}, "fleet.num_gpus_per_worker"),
        ({"fleet": {"num_gpus_per_worker": 2}}, "fleet.num_gpus_per_worker"),
        ({"fleet": {"device": "cuda"}}, "fleet.device"),
        ({"fleet": {"resources": {"simulator": 0}}}, "fleet.resources[...]"),
        ({"fleet": {"resources": {"simulator": "1"}}}, "fleet.resources[...]"),
        ({"fleet": {"resources": {"GPU": 1}}}, "fleet.resources"),
        ({"fleet": {"resources": {"a b": 1}}}, "fleet.resources"),
        ({"fleet": {"resources": {str(n): 1 for n in range(17)}}}, "fleet.resources"),
        ({"evaluation": {"every_train_steps": -1}}, "evaluation.every_train_steps"),
        ({"evaluation": {"episodes": 0}}, "evaluation.episodes"),
        ({"evaluation": {"envs": 257}}, "evaluation.envs"),
        ({"evaluation": {"deterministic": 1}}, "evaluation.deterministic"),
        ({"evaluation": {"timeout_seconds": 0}}, "evaluation.timeout_seconds"),
        (
            {
                "evaluation": {"every_train_steps": 5},
                "language": {"lessons": {"add": {"spec": "task:addition"}}},
            },
            "evaluation.every_train_steps",
        ),
        ({"num_steps": None}, "num_steps"),
        (
            {"fleet": {"envs_per_worker": 4, "inference_batch_size": 5}},
            "fleet.inference_batch_size",
        ),
        ({"buffer": {"bathc_size": 8}}, "buffer.bathc_size"),
        ({"fleet": {"wokers": 2}}, "fleet.wokers"),
        ([], ""),
    ],
    ids=str,
)
def test_an_invalid_value_is_refused_with_its_path(raw: object, field: str) -> None:
    with pytest.raises(InvalidRunConfig) as caught:
        run_config.parse(raw)

    assert caught.value.field == field


def test_keys_of_info_may_lead_into_dicts_and_have_the_characters_of_names() -> None:
    keys = ["cost", "episode.r", "Ant/left knee", "x" * 64, "höhe", *(f"n{n}" for n in range(11))]

    assert run_config.parse({"environment": {"info": keys}}).environment.info == keys


def test_each_invalid_key_of_info_has_an_error() -> None:
    _, errors = run_config.examined({"environment": {"info": ["a", "_b", "a", "final_info"]}})

    assert [(error.field, error.message) for error in errors] == [
        ("environment.info[1]", "'_b': names that begin with _ are ignored"),
        ("environment.info[2]", "'a' is listed twice"),
        (
            "environment.info[3]",
            "final_info is reserved; name the keys of the last info themselves",
        ),
    ]


@pytest.mark.parametrize("section", ["", "environment", "fleet", "policy", "buffer"])
def test_the_runtime_env_is_not_part_of_a_run_configuration(section: str) -> None:
    wish: dict[str, object] = {"runtime_env": {"pip": ["anything"]}}

    with pytest.raises(InvalidRunConfig) as caught:
        run_config.parse({section: wish} if section else wish)

    assert caught.value.field == f"{section}.runtime_env".lstrip(".")
    assert caught.value.message == "unknown field"


@pytest.mark.parametrize(
    ("device", "share", "expected"),
    [
        ("auto", 0.0, "cpu"),
        ("auto", 0.25, "auto"),
        ("cpu", 1.0, "cpu"),
        ("cuda", 0.5, "cuda"),
    ],
)
def test_a_policy_uses_a_gpu_only_if_its_worker_reserves_one(
    device: str, share: float, expected: str
) -> None:
    fleet = {"device": device, "num_gpus_per_worker": share}

    assert run_config.parse({"fleet": fleet}).fleet.policy_device == expected


def test_a_refused_device_names_the_limit_and_the_setting_to_change() -> None:
    with pytest.raises(
        InvalidRunConfig, match=r"set fleet\.num_gpus_per_worker above 0, at most 1"
    ):
        run_config.parse({"fleet": {"device": "cuda"}})
    with pytest.raises(InvalidRunConfig, match="2 GPUs: a worker computes on at most 1"):
        run_config.parse({"fleet": {"num_gpus_per_worker": 2}})


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_workers_may_share_a_gpu(share: float) -> None:
    config = run_config.parse({"fleet": {"num_gpus_per_worker": share}})

    assert config.fleet.worker_resources.get("GPU", 0.0) == share


def test_a_worker_reserves_cpus_gpus_and_custom_resources() -> None:
    fleet = {"num_cpus_per_worker": 2, "num_gpus_per_worker": 0, "resources": {"simulator": 1}}

    assert run_config.parse({"fleet": fleet}).fleet.worker_resources == {"CPU": 2, "simulator": 1}


def test_every_field_of_the_schema_has_a_description() -> None:
    definitions = run_config.json_schema()["$defs"]

    for definition in definitions.values():
        for name, field in definition["properties"].items():
            if "$ref" not in field:
                assert {"title", "description"} <= set(field), name


@pytest.mark.parametrize("spec", ["gymnasium:CartPole-v1", "rolldeck:recall-v0"])
def test_known_environments_are_accepted(spec: str) -> None:
    extensions.check_environment(spec)


def test_only_registered_environments_are_accepted_and_the_error_has_the_remedy() -> None:
    extensions.check_environment("module:my_lab:Maze", registered=["module:my_lab:Maze"])

    with pytest.raises(InvalidRunConfig, match="administrator must add it to ROLLDECK_ENV"):
        extensions.check_environment("module:my_lab:Door", registered=["module:my_lab:Maze"])


def test_a_convolutional_policy_is_refused_without_images() -> None:
    extensions.check_observations("rolldeck:catch-v0", "cnn")
    extensions.check_observations("module:my_lab:Maze", "cnn")
    extensions.check_observations("gymnasium:CartPole-v1", "gru")

    with pytest.raises(InvalidRunConfig) as caught:
        extensions.check_observations("gymnasium:CartPole-v1", "cnn")

    assert caught.value.field == "policy.kind"


@pytest.mark.parametrize("spec", ["gymnasium:Nope-v1", "atari:Pong", "CartPole-v1", "", ":"])
def test_unknown_environments_are_refused(spec: str) -> None:
    with pytest.raises(InvalidRunConfig) as caught:
        extensions.check_environment(spec)

    assert caught.value.field == "environment.spec"


@pytest.mark.parametrize("value", [{}, [1, 2.5, None, True, "text"], {"a": {"b": ["ü", "😀"]}}])
def test_values_of_both_json_and_postgresql_are_storable(value: object) -> None:
    json_shape.check(value)


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"a": [0.0, float("nan")]}, "a[1]"),
        ({"a": {"b": float("inf")}}, "a.b"),
        (["a\x00b"], "[0]"),
        ({"a\x00": 1}, ""),
        ("\ud800", ""),
        (nested(40), "[0]" * 33),
    ],
    ids=["nan", "infinity", "nul", "nul in a key", "lone surrogates", "deep"],
)
def test_values_that_postgresql_cannot_store_are_refused_with_their_path(
    value: object, field: str
) -> None:
    with pytest.raises(json_shape.NotStorable) as caught:
        json_shape.check(value)

    assert caught.value.field == field


@pytest.mark.parametrize(
    ("replay", "field"),
    [
        ({"sampler": "newest"}, "buffer.replay.sampler"),
        ({"max_reuse": 0}, "buffer.replay.max_reuse"),
        ({"fragments_per_chunk": 3}, "buffer.replay.fragments_per_chunk"),
        ({"max_chunks": 15}, "buffer.replay.max_chunks"),
        ({"fragments_per_chunk": 2, "max_chunks": 7}, "buffer.replay.max_chunks"),
    ],
)
def test_replay_settings_without_a_possible_batch_are_refused(
    replay: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidRunConfig) as refused:
        run_config.parse({"buffer": {"batch_size": 16, "replay": replay}})

    assert refused.value.field == field


def chunks(*, max_staleness: int, batch_size: int = 32, **fleet: Any) -> dict[str, Any]:
    """Return a configuration of 16 env slots with chunks of 8 fragments."""
    return {
        "fleet": {"num_workers": 2, "envs_per_worker": 8} | fleet,
        "buffer": {
            "batch_size": batch_size,
            "max_staleness": max_staleness,
            "replay": {"fragments_per_chunk": 8},
        },
    }


@pytest.mark.parametrize(
    "config",
    [
        chunks(max_staleness=1),
        chunks(max_staleness=3),
        chunks(max_staleness=1, batch_size=104),
        chunks(max_staleness=4, num_workers=3),
    ],
)
def test_an_admission_limit_that_incomplete_chunks_can_use_up_is_refused(
    config: dict[str, Any],
) -> None:
    with pytest.raises(InvalidRunConfig) as refused:
        run_config.parse(config)

    assert refused.value.field == "buffer.replay.fragments_per_chunk"


def test_the_refusal_of_an_admission_limit_names_its_numbers_and_the_remedy() -> None:
    with pytest.raises(InvalidRunConfig) as refused:
        run_config.parse(chunks(max_staleness=1))

    assert refused.value.message == (
        "incomplete chunks of 16 env slots and an incomplete batch can hold 136 fragments, but "
        "(max_staleness + 1) · batch_size admits 64, so that no batch is ever complete: set "
        "max_staleness to 4 or more, or lower num_workers or envs_per_worker"
    )


@pytest.mark.parametrize(
    "config",
    [
        chunks(max_staleness=4),
        chunks(max_staleness=1, batch_size=112),
        chunks(max_staleness=2, num_workers=1),
        chunks(max_staleness=0) | {"buffer": {"batch_size": 1, "max_staleness": 0}},
    ],
)
def test_an_admission_limit_with_room_for_a_complete_batch_is_accepted(
    config: dict[str, Any],
) -> None:
    run_config.parse(config)


def test_a_language_run_needs_no_admission_for_chunks() -> None:
    run_config.parse(
        {
            **chunks(max_staleness=1, batch_size=128, num_workers=64),
            "language": {"lessons": {"one": {"spec": "task:reverse"}}},
        }
    )


def test_replay_settings_are_read_back_from_a_stored_configuration() -> None:
    replay = ReplayConfig(sampler="prioritized", alpha=0.7, max_reuse=4, max_chunks=4800)
    config = RunConfig(buffer=BufferConfig(replay=replay))

    assert replay_of(run_config.to_builtins(config)) == replay
    assert replay_of({}) == ReplayConfig()
    assert ReplayConfig().is_queue
    assert not replay.is_queue
