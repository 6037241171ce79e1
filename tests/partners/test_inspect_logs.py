"""Exported logs are read by the real Inspect."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from runs.lifecycle.rules import RunStatus
from tests.buffer_factories import group
from tests.factories import bearer, make_run
from tests.partners.programs import PARTNERS

pytestmark = [pytest.mark.partner, pytest.mark.django_db(transaction=True)]

READ = """
import json, sys
from inspect_ai.log import read_eval_log
log = read_eval_log(sys.argv[1])
print(json.dumps([
    {
        "epoch": sample.epoch, "score": sample.scores["score"].value,
        "roles": [each.role for each in sample.messages],
        "calls": [call.function for each in sample.messages
                  for call in getattr(each, "tool_calls", None) or []],
        "answer": sample.output.completion,
        "error": sample.error and sample.error.message,
    }
    for sample in log.samples
]))
"""


def read(content: bytes, folder: Path) -> Any:
    path = folder / "demo.eval.json"
    path.write_bytes(content)
    python = PARTNERS / "agents" / "bin" / "python"
    made = subprocess.run(
        [python, "-c", READ, path], check=True, capture_output=True, cwd=folder, timeout=120
    )
    return json.loads(made.stdout.splitlines()[-1])


def test_inspect_reads_messages_tool_calls_and_scores(tmp_path: Path) -> None:
    run = make_run(name="demo", kind="outside", status=RunStatus.RUNNING)
    call = {"type": "function", "function": {"name": "add", "arguments": "{}"}, "id": "c1"}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    talk = [
        {"role": "system", "content": "Use the tool."},
        {"role": "user", "content": [{"type": "text", "text": "1 + 1?"}, picture]},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning": "hm"},
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
        {"role": "assistant", "content": "It is 2."},
    ]
    broken = {**call, "function": {"name": "add", "arguments": "{not json"}}
    bad = [talk[1], {"role": "assistant", "content": "", "tool_calls": [broken]}]
    sent = group(mark=5) | {"scores": [0.5, 1.0], "messages": [talk, bad]}
    pushed = Client().post(
        "/atropos/demo/scored_data_list",
        json.dumps([sent]),
        "application/json",
        headers=bearer("env", run=run),
    )
    assert pushed.status_code == 200, pushed.content
    answer = Client().get(
        "/api/v1/runs/demo/groups/export", {"form": "inspect"}, headers=bearer("read", run=run)
    )

    whole, broken_call = read(b"".join(answer.streaming_content), tmp_path)  # type: ignore[attr-defined]

    assert whole == {
        "epoch": 1,
        "score": 0.5,
        "calls": ["add"],
        "answer": "It is 2.",
        "error": None,
        "roles": ["system", "user", "assistant", "tool", "assistant"],
    }
    assert (broken_call["epoch"], broken_call["calls"]) == (2, ["add"])
