"""Arguments of lessons with a data set."""

from typing import Any

import pytest

from rollouts.tasks.rules.dataset_config import dataset_name, parse
from rollouts.tasks.rules.task import InvalidTask


@pytest.mark.parametrize("name", ["a.jsonl", "math/gsm8k", "a-b/c_d/e.parquet"])
def test_a_spec_names_a_path_below_the_folder(name: str) -> None:
    assert dataset_name(f"dataset:{name}") == name


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../a.jsonl", "a/../b", "a//b", "a/.b", "a:b"])
def test_other_paths_are_refused(name: str) -> None:
    with pytest.raises(InvalidTask, match=r"spec: .* below ROLLDECK_DATASETS"):
        dataset_name(f"dataset:{name}")


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"promt": "q"}, "kwargs.promt: unknown field"),
        ({"eval_share": 1.0}, "kwargs.eval_share: "),
        ({"on_failure": "ignore"}, "kwargs.on_failure: "),
        ({"template": "Q:"}, "kwargs.template: must contain {}"),
        ({"system": "Be brief."}, "kwargs.system: a system message requires chat"),
        ({"rewards": []}, "kwargs.rewards: "),
        ({"rewards": [{"weight": 1}]}, "kwargs.rewards[0].kind: required"),
        ({"rewards": [{"kind": "fuzzy"}]}, "kwargs.rewards[0].kind: 'fuzzy' is unknown; choose"),
        ({"rewards": [{"kind": "exact", "weight": 0}]}, "kwargs.rewards[0].weight: "),
        ({"rewards": [{"kind": "exact", "seconds": 900}]}, "kwargs.rewards[0].seconds: "),
        (
            {"rewards": [{"kind": "exact"}, {"kind": "regex"}]},
            "kwargs.rewards[1].options.pattern: required",
        ),
        (
            {"rewards": [{"kind": "regex", "options": {"pattern": "("}}]},
            "kwargs.rewards[0].options.pattern: not a regular expression",
        ),
        (
            {"rewards": [{"kind": "exact", "options": {"fold": True}}]},
            "kwargs.rewards[0].options.fold: unknown field",
        ),
        ({"rewards": [{"kind": "judge"}]}, "kwargs.rewards[0].options.server: required"),
    ],
)
def test_the_first_invalid_argument_is_named(kwargs: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidTask) as failure:
        parse(kwargs)

    assert str(failure.value).startswith(text)


def test_the_default_reward_is_the_exact_answer_within_five_seconds() -> None:
    [reward] = parse({}).rewards

    assert (reward.kind, reward.weight, reward.limit_seconds) == ("exact", 1.0, 5.0)
    [judge] = parse({"rewards": [{"kind": "judge", "options": {"server": "big"}}]}).rewards
    assert judge.limit_seconds == 60.0
