"""Invalid settings and missing packages of verifiers lessons have a reason."""

import json
import sys
from typing import Any

import pytest

from rollouts.fleet.groups.environment_loader import load_environment
from rollouts.fleet.groups.errors import LessonFailed

SPEC = "verifiers:maths"
ENTRY: dict[str, Any] = {"python": sys.executable, "env": {"taskset": {"id": "maths"}}}


@pytest.mark.parametrize(
    ("setting", "kwargs", "kind", "text"),
    [
        ("", {}, "environment_unknown", "is not in ROLLDECK_VERIFIERS of .*; known: none"),
        ({"chess": ENTRY}, {}, "environment_unknown", "known: chess"),
        ("{", {}, "environment_unknown", "ROLLDECK_VERIFIERS of .*truncated"),
        ({"maths": ENTRY | {"pyton": 1}}, {}, "environment_unknown", "pyton"),
        ({"maths": ENTRY | {"env": {}}}, {}, "environment_unknown", "env.taskset.id is missing"),
        ({"maths": ENTRY}, {"harness": "bash"}, "environment_kwargs", "harness"),
        ({"maths": ENTRY}, {"max_turns": 0}, "environment_kwargs", "max_turns"),
        ({"maths": ENTRY | {"python": "/none/python"}}, {}, "dependency_missing", "/none/python"),
        ({"maths": ENTRY}, {}, "dependency_missing", "needs verifiers 0.4"),
    ],
)
def test_an_invalid_setting_is_refused(
    monkeypatch: pytest.MonkeyPatch, setting: Any, kwargs: dict[str, Any], kind: str, text: str
) -> None:
    monkeypatch.setenv("ROLLDECK_ENVIRONMENTS", SPEC)
    written = setting if isinstance(setting, str) else json.dumps(setting)
    monkeypatch.setenv("ROLLDECK_VERIFIERS", written)

    with pytest.raises(LessonFailed, match=text) as refused:
        load_environment(SPEC, kwargs)

    assert refused.value.kind == kind
