"""Tool servers that cannot be used are named before the first prompt."""

import sys

import pytest

from rollouts.fleet.tools.server import ToolServer, ToolsUnusable


@pytest.mark.parametrize(
    ("setting", "kind", "text"),
    [
        ("", "environment_unknown", "'calc' is not in this machine's ROLLDECK_TOOL_SERVERS"),
        ('{"calc": {}}', "environment_failed", "missing required field `command`"),
        ('{"calc": {"command": "x"}}', "dependency_missing", "pip install 'rolldeck[prompts]'"),
    ],
)
def test_an_unusable_server_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, setting: str, kind: str, text: str
) -> None:
    monkeypatch.setenv("ROLLDECK_TOOL_SERVERS", setting)
    monkeypatch.setitem(sys.modules, "mcp", None)

    with pytest.raises(ToolsUnusable) as failure:
        ToolServer("calc")

    assert failure.value.kind == kind
    assert text in str(failure.value)
