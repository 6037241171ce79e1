"""The clients of atroposlib with `server_type` vllm and trl read the answers of our server."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from rollouts.fleet.engine.tokenizers import load_tokenizer
from tests.contract.tiny_inference import tiny_inference
from tests.unit.rollouts.fleet.engine.small_models import logprobs

pytestmark = pytest.mark.partner

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".partners" / "atropos" / "bin" / "python"


def test_answers_and_scores_are_those_of_the_model(tmp_path: Path) -> None:
    with tiny_inference(tmp_path / "tiny") as served:
        command = [PYTHON, "tests/partners/atropos_servers.py", served.url, str(served.folder)]
        ran = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | {"HF_HUB_OFFLINE": "1"},
            capture_output=True,
            check=False,
            timeout=120,
        )
    assert ran.returncode == 0, ran.stderr.decode()[-3000:]
    found = json.loads(ran.stdout)

    prompt = found["prompt"]
    assert prompt == load_tokenizer(served.folder).encode("12=")
    tokens, drawn, finished = found["answers"]
    assert (len(tokens), {*finished} <= {"stop", "length"}) == (3, True)
    for answer, own in zip(tokens, drawn, strict=True):
        expected = logprobs(served.model, prompt + answer)[len(prompt) - 1 :]
        assert own == pytest.approx(
            [expected[at, token].item() for at, token in enumerate(answer)], abs=1e-4
        )
    teacher, expected = found["teacher"], logprobs(served.model, prompt)
    assert teacher["prompt_tokens"] == prompt
    assert teacher["prompt_topk_token_ids"][0] == []
    for at, ids in enumerate(teacher["prompt_topk_token_ids"][1:]):
        assert {*ids} == {prompt[at + 1], *expected[at].topk(2).indices.tolist()}
        assert teacher["prompt_topk_logprobs"][at + 1] == pytest.approx(
            [expected[at, token].item() for token in ids], abs=1e-4
        )
    assert (len(found["completion"]), len(found["chat"])) == (2, 2)
