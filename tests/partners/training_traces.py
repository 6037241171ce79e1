"""Training traces of two rollouts, built and validated by OpenEnv; printed as JSON."""

import json
import sys

from openenv.core.harness.training import TrainingTrace, TrainingTurn


def turn(node: str, prompt: list[int], completion: list[int]) -> TrainingTurn:
    """Return a captured generation."""
    return TrainingTurn(
        node_id=node,
        prompt_token_ids=prompt,
        completion_token_ids=completion,
        per_token_logps=[-0.25] * len(completion),
        loss_mask=[0] * len(prompt) + [1] * len(completion),
        request={"messages": [{"role": "user", "content": "2+2="}]},
        metadata={"harness": "test"},
    )


traces = [
    TrainingTrace(turns=[turn("a", [11, 12], [13, 14]), turn("b", [11, 12, 13, 14, 21], [15])]),
    TrainingTrace(turns=[turn("c", [11, 12], [16])]),
]
sys.stdout.write(json.dumps([trace.model_dump(mode="json") for trace in traces]))
