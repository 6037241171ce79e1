"""Forty valid bodies for an outside and a fleet run, in every form that clients may send.

Fuzzers start from these; a test pushes each one. Groups name environment 0 or none.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from rolldeck import wire
from rolldeck.group_encoding import pack_group
from rolldeck.wire import FRAGMENTS_TYPE, GROUPS_TYPE
from tests.buffer_factories import ENVIRONMENT, REGISTRATION, body, fragment, group, push

JSON_TYPE = "application/json"
RUN, FLEET = "demo", "fleet"
MESSAGES = [[{"role": "user", "content": "2 + 2?"}, {"role": "tool", "content": [1, {"a": None}]}]]
LOGPROBS = [[-0.5, -1e-7, -12.0], [-0.25, 0.0, -3.5]]


class ValidBody(NamedTuple):
    """One request body."""

    name: str
    path: str
    content_type: str
    content: bytes


# Optional fields of a group.
EXTRAS: dict[str, dict[str, Any]] = {
    "nothing more": {},
    "environment": {"env_id": 0},
    "logprobs": {"inference_logprobs": LOGPROBS, "ref_logprobs": LOGPROBS},
    "advantages": {"advantages": LOGPROBS},
    "one advantage a sequence": {"advantages": [[0.5], [-0.5]]},
    "messages": {"messages": MESSAGES * 2},
    "overrides": {"overrides": [{"set_advantage_to_zero": True}, {}], "group_overrides": {"a": 1}},
    "distillation": {
        "distill_token_ids": [[[1, 2]] * 3] * 2,
        "distill_logprobs": [[[-0.5, -1.5]] * 3] * 2,
    },
    "ragged distillation": {"distill_token_ids": [[[1], [1, 2], []], [[3]]]},
    "version": {"policy_step": 0, "epoch": 0},
    "images": {"images": ["aGVsbG8=", None, {"height": 1}], "generation_params": {"top_p": 0.9}},
    "own fields": {"mine": {"deep": [[[{}]]]}, 'é "quoted" [': "\u2028 \\ text"},
}


def groups() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, extra in EXTRAS.items():
        yield name, group(**extra)
    yield "one token", group(sequences=1, tokens=1)
    yield "largest token", group(mark=2**31 - 1)
    ragged = [[1, 2, 3], [], [4]]
    yield "ragged", {"tokens": ragged, "masks": ragged, "scores": [0.5, -1e300, 5e-324]}


def bodies() -> Iterator[ValidBody]:
    atropos = f"/atropos/{RUN}"
    yield ValidBody("register", f"{atropos}/register", JSON_TYPE, body(REGISTRATION))
    yield ValidBody("register-env", f"{atropos}/register-env", JSON_TYPE, body(ENVIRONMENT))
    yield ValidBody("status-env", f"{atropos}/status-env", JSON_TYPE, body({"env_id": 0}))
    named_groups = list(groups())
    for name, each_group in named_groups:
        yield ValidBody(f"json: {name}", f"{atropos}/scored_data", JSON_TYPE, body(each_group))
    several = body([group for _, group in named_groups[:6]])
    yield ValidBody("json: several", f"{atropos}/scored_data_list", JSON_TYPE, several)
    quoted = group() | {"tokens": [["1", 2.0, 3]] * 2, "scores": [1, "0.5"]}
    yield ValidBody("json: leniencies", f"{atropos}/scored_data", JSON_TYPE, body(quoted))
    for name, each_group in named_groups:
        yield _binary(name, pack_group(each_group))
    wide = np.arange(2048, dtype=np.int32).reshape(8, 256)
    arrays = {"tokens": wide, "masks": wide, "scores": np.zeros(8), "advantages": np.zeros(8)}
    yield _binary("arrays", pack_group(arrays))
    half = pack_group(group(inference_logprobs=LOGPROBS), logprob_dtype="float16")
    yield _binary("half precision", half)
    yield _binary("several", *(pack_group(group) for _, group in named_groups[:6]))
    path = f"/api/v1/runs/{FLEET}/fragments"
    yield ValidBody("fragment", path, FRAGMENTS_TYPE, push(fragment()))
    two = push(fragment(slot="w1-0@a"), fragment(slot="w1-0@a", number=1, steps=9))
    yield ValidBody("fragments", path, FRAGMENTS_TYPE, two)


def _binary(name: str, *packed: wire.Group) -> ValidBody:
    content = wire.encode(
        wire.GroupPush(groups=[wire.encode(packed_group) for packed_group in packed])
    )
    return ValidBody(f"binary: {name}", f"/api/v1/runs/{RUN}/groups", GROUPS_TYPE, content)


VALID_BODIES = tuple(bodies())
