"""Push the groups for the tests of the viewer."""

from typing import Any

import numpy as np

from rolldeck import wire
from rolldeck.group_encoding import pack_group
from tests.server import Server, wait_until

LONG_TOKENS = 131_072
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
UNSEEN = "\u202egnp.exe\u200b\x1b[31m"


def outside_run(server: Server, name: str) -> None:
    server.post("/api/v1/runs", {"name": server.free_name(name), "kind": "outside", "start": True})


def send(server: Server, run: str, *groups: dict[str, Any]) -> None:
    """Push groups in the binary format."""
    body = wire.encode(wire.GroupPush(groups=[wire.encode(pack_group(group)) for group in groups]))
    answer = server.http.post(
        f"/api/v1/runs/{run}/groups", content=body, headers={"Content-Type": wire.GROUPS_TYPE}
    )
    assert answer.is_success, answer.text


def push(server: Server, run: str, *groups: dict[str, Any]) -> list[int]:
    """Push groups in the binary format; return their ids after ingestion."""
    send(server, run, *groups)

    def digested() -> list[int]:
        page = server.get(f"/api/v1/trajectories?run={run}&limit={len(groups)}")
        rows = page["results"]
        # Searches use the stored digests.
        is_done = len(rows) == len(groups) and not page["unindexed"]
        return [int(row["id"]) for row in reversed(rows)] if is_done else []

    return wait_until(digested, seconds=120, what="the groups are digested")


def conversation(
    question: str, *answers: str, scores: list[float], **fields: Any
) -> dict[str, Any]:
    """Return a group whose sequences share a prompt of three tokens and then diverge."""
    rows = [[1, 2, 3, 10 + place, 20] for place in range(len(answers))]
    masks = [[-100, -100, -100, *row[3:]] for row in rows]
    logprobs = [[1.0, 1.0, 1.0, -0.1, -5.0] for _ in rows]
    messages = [
        [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        for answer in answers
    ]
    return {
        "tokens": rows,
        "masks": masks,
        "inference_logprobs": logprobs,
        "scores": scores,
        "messages": messages,
        **fields,
    }


def long_group() -> dict[str, Any]:
    """Return a group of one sequence of 128 k tokens, half of them trained on."""
    tokens = np.arange(LONG_TOKENS, dtype=np.int32) % 50_000
    own = (np.arange(LONG_TOKENS) // 1000) % 2 == 1
    logprobs = np.where(np.arange(LONG_TOKENS) % 997 == 5, -6.0, -0.2).astype(np.float32)
    return {
        "tokens": [tokens],
        "masks": [np.where(own, tokens, -100)],
        "inference_logprobs": [logprobs],
        "scores": [1.0],
    }
