"""Record the bodies that the original Atropos server accepts, and its batches of them.

Each case starts with an empty server: a trainer registers, the case runs, and the batch is read.
In a separate virtual environment, as for `record_atropos.py`:

    PYTHONPATH=. atropos/bin/python tests/contract/record_atropos_shapes.py \
        > tests/contract/atropos_shapes_0_4_0.json
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from tests.contract.record_atropos import REGISTRATION, Step, environment, group, record

SEQUENCES = 4


def plain(**fields: Any) -> dict[str, Any]:
    """Return a group with distinct rows, so that a change of any of them is visible."""
    rows = [[first, 11, 12] for first in range(1, SEQUENCES + 1)]
    masks = [[-100, 11, 12]] * SEQUENCES
    return {"tokens": rows, "masks": masks, "scores": [0.5, 1.0, -0.25, 0.0]} | fields


def rows_of(value: Any) -> list[list[Any]]:
    return [[value] * 3] * SEQUENCES


TALK = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes", "reward": 1}]
# Result of `BaseEnv.collect_trajectories` and `handle_send_to_api` for the four items of an
# environment that implements `collect_trajectory` only.
DEFAULT = {
    "advantages": [],
    "ref_logprobs": [],
    "messages": [],
    "group_overrides": {},
    "overrides": [],
    "images": [],
    "distill_token_ids": None,
    "distill_logprobs": None,
    "env_id": 0,
}
OPTIONAL = (
    *("advantages", "ref_logprobs", "messages", "inference_logprobs", "overrides", "images"),
    *("distill_token_ids", "distill_logprobs"),
)

GROUPS: dict[str, Any] = {
    "required fields alone": plain(),
    "the default of BaseEnv": plain(**DEFAULT),
    "the default with messages": plain(**DEFAULT | {"messages": [TALK] * SEQUENCES}),
    "the default with advantages": plain(**DEFAULT | {"advantages": rows_of(0.5)}),
    **{f"{name} is empty": plain(**{name: []}) for name in OPTIONAL},
    **{f"{name} is null": plain(**{name: None}) for name in OPTIONAL},
    "every optional list is empty": plain(**{name: [] for name in OPTIONAL}),
    "every optional field is null": plain(
        **dict.fromkeys((*OPTIONAL, "generation_params", "group_overrides", "env_id"))
    ),
    "rows of advantages are empty": plain(advantages=[[]] * SEQUENCES),
    "rows of ref_logprobs are empty": plain(ref_logprobs=[[]] * SEQUENCES),
    "rows of inference_logprobs are empty": plain(inference_logprobs=[[]] * SEQUENCES),
    "one empty row of inference_logprobs": plain(inference_logprobs=[[]]),
    "some rows of inference_logprobs are empty": plain(
        inference_logprobs=[[], [], [-0.5] * 3, [-0.5] * 3]
    ),
    "fewer rows of ref_logprobs than sequences": plain(ref_logprobs=[[-0.5] * 3] * 2),
    "short rows of inference_logprobs": plain(inference_logprobs=[[-0.5]] * SEQUENCES),
    "one advantage for each sequence": plain(advantages=[[0.5], [0.25], [-1.0], [0.0]]),
    "advantages as a flat list": plain(advantages=[1]),
    "null among ref_logprobs": plain(ref_logprobs=[None] * SEQUENCES),
    "null inside a row": plain(inference_logprobs=[[None, -0.5, -0.5]] * SEQUENCES),
    "integers where floats belong": plain(
        scores=[1, 0, -1, 2],
        advantages=rows_of(1),
        ref_logprobs=rows_of(-1),
        inference_logprobs=rows_of(0),
    ),
    "booleans as scores": plain(scores=[True, False, True, False]),
    "numbers in quotes as scores": plain(scores=["1", "0.5", "-1", "1e-3"]),
    "null among scores": plain(scores=[None, 0.5, 0.5, 0.5]),
    "scores nested by sequence": plain(scores=[[0.5]] * SEQUENCES),
    "floats where token ids belong": plain(tokens=rows_of(7.0), masks=rows_of(7.0)),
    "numbers in quotes as token ids": plain(tokens=rows_of("7"), masks=rows_of("7")),
    "booleans as masks": plain(masks=rows_of(True)),
    "0 and 1 as masks": plain(masks=rows_of(1)),
    "a fraction as a token id": plain(tokens=rows_of(1.5)),
    "null among tokens": plain(tokens=[None] * SEQUENCES),
    "masks are empty": plain(masks=[]),
    "scores are empty": plain(scores=[]),
    "masks shorter than tokens": plain(masks=[[11]] * SEQUENCES),
    "a negative token id": plain(tokens=rows_of(-1)),
    "messages as a flat list": plain(messages=TALK),
    "messages for each sequence": plain(messages=[TALK] * SEQUENCES),
    "messages of one sequence": plain(messages=[TALK]),
    "conversations without messages": plain(messages=[[]] * SEQUENCES),
    "messages as text": plain(messages=["# a transcript"]),
    "null among messages": plain(messages=[None] * SEQUENCES),
    "a message with parts": plain(
        messages=[
            [{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url"}]}]
        ]
        * SEQUENCES
    ),
    "a message that calls a tool": plain(
        messages=[[{"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}]] * SEQUENCES
    ),
    "a message without content": plain(messages=[[{"role": "user"}]] * SEQUENCES),
    "images of each sequence": plain(images=["data:image/png;base64,AAAA"] * SEQUENCES),
    "images nested by sequence": plain(images=[["AAAA", None], [], ["BBBB"], []]),
    "null for each image": plain(images=[None] * SEQUENCES),
    "images as text": plain(images="AAAA"),
    "overrides of each sequence": plain(overrides=[{"set_advantage_to_zero": True}, {}, {}, {}]),
    "fewer overrides than sequences": plain(overrides=[{"sft": True}]),
    "null among overrides": plain(overrides=[None] * SEQUENCES),
    "overrides as an object": plain(overrides={"sft": True}),
    "group_overrides": plain(group_overrides={"sft": True, "group_size": SEQUENCES}),
    "group_overrides are empty": plain(group_overrides={}),
    "group_overrides as a list": plain(group_overrides=[]),
    "generation_params": plain(generation_params={"temperature": 0.7, "stop": ["a"], "n": 4}),
    "generation_params are empty": plain(generation_params={}),
    "generation_params as a list": plain(generation_params=[]),
    "distillation of one width": plain(
        distill_token_ids=[[[1, 2]] * 3] * SEQUENCES,
        distill_logprobs=[[[-0.5, -1.0]] * 3] * SEQUENCES,
    ),
    "distillation of several widths": plain(
        distill_token_ids=[[[1, 2], [1], []]] * SEQUENCES,
        distill_logprobs=[[[-0.5, -1.0], [-0.5], []]] * SEQUENCES,
    ),
    "distillation without tokens": plain(
        distill_token_ids=[[]] * SEQUENCES, distill_logprobs=[[]] * SEQUENCES
    ),
    "distillation with integers for floats": plain(distill_logprobs=[[[-1, 0]] * 3] * SEQUENCES),
    "fields that are not Atropos'": plain(ground_truth="42", metadata={"a": [1, None]}, reward=1),
    "env_id is null": plain(env_id=None),
    "env_id in quotes": plain(env_id="0"),
    "env_id as a float": plain(env_id=0.0),
    "env_id of no environment": plain(env_id=7),
    "env_id as text": plain(env_id="math"),
    "sequences of one token": plain(tokens=[[1]] * SEQUENCES, masks=[[1]] * SEQUENCES),
    "a sequence without tokens": plain(tokens=[[], [1], [1], [1]], masks=[[], [1], [1], [1]]),
    "an empty object": {},
    "null": None,
    "a list": [plain()],
}

LISTS: dict[str, Any] = {
    "a list of one group": [plain()],
    "a list of the defaults of BaseEnv": [plain(**DEFAULT), plain(**DEFAULT)],
    "groups of one": [group(mark, 1, env_id=0) for mark in range(1, SEQUENCES + 1)],
    "groups of one with empty lists": [
        group(mark, 1, **DEFAULT) for mark in range(1, SEQUENCES + 1)
    ],
    "a list with null": [plain(), None],
    "an empty list": [],
    "one group, not a list": plain(),
}

ENVIRONMENTS: dict[str, Any] = {
    "as BaseEnv registers": environment(min_batch_allocation=None, group_size=SEQUENCES),
    "integers where floats belong": environment(weight=1, min_batch_allocation=0),
    "floats where integers belong": environment(max_token_length=64.0, group_size=2.0),
    "numbers in quotes": environment(max_token_length="64", weight="1", group_size="2"),
    "unknown fields": environment(server="a", tags=["x"]),
    "no name": environment(desired_name=None),
    "an empty name": environment(""),
    "a weight below zero": environment(weight=-1.0),
    "no weight": environment(weight=None),
    "a length of zero": environment(max_token_length=0),
    "a length of -1": environment(max_token_length=-1),
}


def of_group(path: str) -> Callable[[Any], list[Step]]:
    def story(content: Any) -> list[Step]:
        return [
            ("POST", "/register", REGISTRATION | {"batch_size": SEQUENCES}),
            ("GET", "/batch", None),
            ("POST", "/register-env", environment(group_size=SEQUENCES)),
            ("POST", path, content),
            ("GET", "/status", None),
            ("GET", "/batch", None),
        ]

    return story


def of_environment(content: Any) -> list[Step]:
    return [
        ("POST", "/register", REGISTRATION),
        ("GET", "/batch", None),
        ("POST", "/register-env", content),
        ("GET", "/status-env", {"env_id": 0}),
    ]


KINDS: dict[str, tuple[dict[str, Any], Callable[[Any], list[Step]]]] = {
    "group": (GROUPS, of_group("/scored_data")),
    "list": (LISTS, of_group("/scored_data_list")),
    "environment": (ENVIRONMENTS, of_environment),
}


if __name__ == "__main__":
    recorded = {
        f"{kind}: {name}": record(story(content))
        for kind, (cases, story) in KINDS.items()
        for name, content in cases.items()
    }
    json.dump(recorded, sys.stdout, indent=None, separators=(",", ":"))
