"""The code blocks of the page about policies run as written, in order."""

from typing import Any

import torch

from tests.documented import blocks_of
from tests.unit.client.failing_server import serving
from tests.unit.examples.served_run import ServedRun
from tests.unit.examples.test_ppo_recurrent import config_of, fresh_policy, rolled_out

PAGE = "howto/policies.md"


def test_every_block_of_code_runs_as_written() -> None:
    blocks = [block.text for block in blocks_of(PAGE) if block.language == "python"]
    assert len(blocks) == 3
    made = [
        fragment for some in rolled_out(fresh_policy("gru"), "gru", times=2) for fragment in some
    ]
    run = ServedRun(config_of("gru"), make_fragment=lambda number: made[number])

    with serving(run) as server:
        names: dict[str, Any] = {"url": server.url, "token": "rd_test"}
        for block in blocks:
            exec(compile(block, PAGE, "exec"), names)  # noqa: S102 as a reader would
        names["trainer"].close()

    assert [manifest["step"] for manifest in run.published] == [0]
    outputs, values, arrays = (names[name] for name in ("outputs", "values", "arrays"))
    assert outputs.shape[:2] == values.shape == arrays["first"].T.shape
    assert torch.isfinite(outputs).all()
    assert len(names["steps"]) >= 100
