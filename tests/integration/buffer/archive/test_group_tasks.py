"""Archived groups become tasks of a lesson with the same prompts, token by token."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.schemas.pushes_msgpack import decode_push
from buffer.ingest.services.pushes import accept_groups
from buffer.inspect.rules.marks import MarkChange
from buffer.inspect.services import mark_groups
from rolldeck.cli import main
from rolldeck.sequences import ArchiveUnreadableError, write_tasks
from rolldeck.wire import GroupPush, encode
from rollouts.fleet.datasets.dataset_task import DatasetTask
from rollouts.fleet.datasets.rows import DatasetUnusable
from rollouts.fleet.groups.batches import RolloutBatch
from rollouts.fleet.groups.outbox import encoded
from rollouts.tasks.rules.dataset_config import parse
from rollouts.tasks.rules.task import examples
from runs.lifecycle.models import Run
from tests.buffer_factories import body, group
from tests.factories import NOON
from tests.integration.buffer.archive_files import export, make_words, train
from tests.unit.rollouts.fleet.datasets.dataset_files import sums, write_jsonl
from tests.unit.rollouts.fleet.groups.conftest import Bench, language

pytestmark = pytest.mark.django_db(transaction=True)

ANY = {"kind": "regex", "options": {"pattern": "^"}}
QUESTION = {"role": "user", "content": "2+2"}


def command(*words: str) -> int:
    return main(["archive", "sequences", *words])


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("ROLLDECK_DATASETS", str(tmp_path))
    run = make_words()
    run.policy_step = 100
    run.save(update_fields=["policy_step"])
    return run


def scored(mark: int, *scores: float, **fields: Any) -> dict[str, Any]:
    """Return a group of two sequences with the prompt [mark, 8]."""
    rows = [[mark, 8, 9], [mark, 8, 7]]
    masks = [[-100, -100, 9], [-100, -100, 7]]
    return {"tokens": rows, "masks": masks, "scores": list(scores), **fields}


def chat(*answers: str) -> list[list[dict[str, Any]]]:
    return [[QUESTION, {"role": "assistant", "content": answer}] for answer in answers]


def archived(run: Run, folder: Path, *groups: dict[str, Any]) -> Path:
    made = [decode_group(body(one)) for one in groups]
    accept_groups(run=run, groups=made, producer="bob", now=NOON)
    train(run, steps=len(groups))
    export(run, folder / "words.parquet")
    return folder / "words.parquet"


def sampled(lesson: dict[str, Any], *, examples: int) -> RolloutBatch:
    """Return groups of two answers of a real worker with the byte tokenizer."""
    lessons = {"sums": {"sampling": {"max_tokens": 8}, **lesson}}
    bench = Bench(language(lessons, model={"tokenizer": "bytes"}))
    try:
        batch, _ = bench.sample("sums", n_examples=examples)
    finally:
        bench.worker.shutdown()
    assert batch is not None
    return batch  # type: ignore[no-any-return]


def prompts_of(batch: RolloutBatch) -> list[list[int]]:
    """Return the tokens that each group of a batch begins with."""
    found = []
    for one in batch.groups:
        prompts = [[*each.tokens][: [*each.is_own].index(True)] for each in one.rollouts]
        assert prompts == prompts[:1] * 2
        found.append(prompts[0])
    return found


def test_a_lesson_repeats_the_prompts_of_a_run_token_by_token(run: Run, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "sums.jsonl", sums(12))
    first = sampled({"spec": "dataset:sums.jsonl"}, examples=10)
    push = GroupPush(groups=[encoded(one, lesson="sums", worker="w") for one in first.groups])
    accept_groups(run=run, groups=decode_push(encode(push)), producer="w", now=NOON)
    train(run, steps=10)
    export(run, tmp_path / "words.parquet")

    assert (
        command(str(tmp_path / "words.parquet"), "--tasks", "--out", f"{tmp_path}/t.parquet") == 0
    )

    rows = pq.read_table(tmp_path / "t.parquet").to_pylist()
    assert [row["prompt_tokens"] for row in rows] == prompts_of(first)
    assert [row["example"] for row in rows] == [one.example for one in first.groups]
    kwargs = {"prompt": "prompt_tokens", "answer": "", "rewards": [ANY]}
    again = sampled({"spec": "dataset:t.parquet", "kwargs": kwargs}, examples=9)
    held_out = {tuple(one) for one in prompts_of(first)} - {tuple(one) for one in prompts_of(again)}
    assert len(held_out) == 1
    assert len({tuple(one) for one in prompts_of(again)}) == 9
    texts = {bytes(tokens).decode() for tokens in prompts_of(again)}
    assert {rollout.prompt for rollout in again.rollouts} == texts


def test_a_row_has_the_prompt_and_the_scores_of_its_group(run: Run, tmp_path: Path) -> None:
    groups = [
        scored(1, 0.0, 1.0, messages=chat("5", "4"), env_id=1),
        scored(2, 0.5, 0.5),
        # Stock environments train on all tokens; their messages have the prompt.
        group(mark=3, messages=chat("4", "4")),
    ]
    archive = archived(run, tmp_path, *groups)

    tasks = write_tasks(archive, tmp_path / "tasks.parquet")

    assert (len(tasks), tasks.left_out) == (3, "")
    first, second, third = pq.read_table(tmp_path / "tasks.parquet").to_pylist()
    assert (first["prompt_tokens"], first["prompt"]) == ([1, 8], [QUESTION])
    assert (first["best_answer"], first["env_id"], first["sequences"]) == ("4", 1, 2)
    scores = [first[f"score_{name}"] for name in ("mean", "min", "max", "std")]
    assert scores == [0.5, 0.0, 1.0, 0.5]
    assert (second["prompt_tokens"], second["prompt"]) == ([2, 8], None)
    assert (third["prompt_tokens"], third["prompt"]) == (None, [QUESTION])


def test_messages_and_the_best_answer_are_tasks_of_a_chat(run: Run, tmp_path: Path) -> None:
    archive = archived(
        run, tmp_path, *(scored(mark, 0.0, 1.0, messages=chat("5", "4")) for mark in range(3))
    )
    write_tasks(archive, tmp_path / "tasks.parquet")

    made = DatasetTask("tasks.parquet", parse({"chat": True, "answer": "best_answer"}))

    problem = made.problem(0, mode="train", seed=0)
    assert ([*problem.messages], problem.answer, problem.tokens) == ([QUESTION], "4", ())


def test_an_answer_of_an_unknown_sequence_is_not_the_best_one(run: Run, tmp_path: Path) -> None:
    archive = archived(run, tmp_path, scored(1, 1.0, 0.0, messages=chat("5")))
    write_tasks(archive, tmp_path / "tasks.parquet")

    (row,) = pq.read_table(tmp_path / "tasks.parquet").to_pylist()

    assert (row["prompt"], row["best_answer"]) == ([QUESTION], None)


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ([], [1, 2, 3]),
        (["--lowest-below", "1"], [2, 3]),
        (["--highest-above", "0"], [1, 2]),
        (["--lowest-below", "1", "--highest-above", "0"], [2]),
    ],
)
def test_scores_select_tasks(
    run: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    kept: list[int],
) -> None:
    archive = archived(run, tmp_path, scored(1, 1.0, 1.0), scored(2, 0.0, 1.0), scored(3, 0.0, 0.0))
    target = tmp_path / "tasks.parquet"

    assert command(str(archive), "--tasks", "--out", str(target), *options) == 0

    rows = pq.read_table(target).to_pylist()
    assert [row["prompt_tokens"][0] for row in rows] == kept
    noun = "task" if len(kept) == 1 else "tasks"
    left_out = f"; groups left out: {3 - len(kept)} by their scores" if options else ""
    assert capsys.readouterr().out == f"{target}: {len(kept)} {noun}{left_out}\n"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"masks": [[1, 8, 9], [-100, -100, 7]]},
            "masks.0: the first token is trained, so there is no prompt",
        ),
        (
            {"masks": [[-100, 8, 9], [-100, -100, 7]]},
            "tokens.1: the prompt differs from that of other sequences",
        ),
        ({"masks": [[-100] * 3, [-100] * 3]}, "masks: no sequence has a trained token"),
    ],
)
def test_a_group_without_a_common_prompt_is_left_out(
    run: Run, tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    archive = archived(run, tmp_path, scored(1, 0.0, 1.0, **changes), scored(2, 0.0, 1.0))

    tasks = write_tasks(archive, tmp_path / "tasks.parquet")

    item = pq.read_table(archive)["item_id"].to_pylist()[0]
    expected = f"; groups left out: 1 without a prompt ({archive}, item {item}: {reason})"
    assert (len(tasks), tasks.left_out) == (1, expected)


def test_an_archive_without_tasks_is_refused(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = archived(run, tmp_path, group(mark=1))
    target = tmp_path / "tasks.parquet"

    assert command(str(archive), "--tasks", "--out", str(target)) == 1
    assert (
        "words.parquet has no task; groups left out: 1 without a prompt" in capsys.readouterr().err
    )
    archive.write_bytes(archive.read_bytes()[:-9])
    with pytest.raises(
        ArchiveUnreadableError, match=r"words.parquet is not a complete Parquet file"
    ):
        write_tasks(archive, target)

    assert list(tmp_path.glob("*tasks*")) == []


def test_a_tag_selects_tasks_and_sequences(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = archived(run, tmp_path, *(scored(mark, 0.0, 1.0) for mark in range(4)))
    items = pq.read_table(archive)["item_id"].to_pylist()
    mark_groups(
        run_id=run.pk,
        group_ids=[items[1], items[3]],
        change=MarkChange(add_tags=frozenset({"odd", "two words"})),
        actor="bob",
        now=NOON,
    )
    export(run, archive)
    target = tmp_path / "tasks.parquet"

    assert command(str(archive), "--tasks", "--tag", "two words", "--out", str(target)) == 0
    tasks = pq.read_table(target).to_pylist()
    assert command(str(archive), "--tag", "two words", "--out", str(target)) == 0
    sequences = pq.read_table(target).to_pylist()

    assert [row["prompt_tokens"] for row in tasks] == [[1, 8], [3, 8]]
    assert [row["item_id"] for row in sequences] == [items[1]] * 2 + [items[3]] * 2
    assert command(str(archive), "--tag", "other", "--out", str(target)) == 1
    error = capsys.readouterr().err
    assert "words.parquet has no group with the tag 'other'; its tags are odd, two words" in error


def test_limits_of_scores_need_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "words.parquet").touch()
    words = [str(tmp_path / "words.parquet"), "--out", "x", "--lowest-below", "1"]
    assert command(*words) == 2

    assert "add --tasks" in capsys.readouterr().err


def test_a_lesson_names_the_file_and_the_field_of_a_bad_task(run: Run, tmp_path: Path) -> None:
    archive = archived(run, tmp_path, scored(1, 0.0, 1.0), scored(2, 0.0, 1.0))
    write_tasks(archive, tmp_path / "tasks.parquet")
    tokens = {"prompt": "prompt_tokens", "answer": ""}

    for kwargs, reason in [
        ({"answer": ""}, "tasks.parquet, row 0: column 'prompt' is null"),
        (tokens | {"answer": "reply"}, "tasks.parquet, row 0: column 'reply' is missing"),
        (tokens | {"chat": True}, "row 0: column 'prompt_tokens': tokens permit neither chat"),
    ]:
        with pytest.raises(DatasetUnusable, match=reason):
            DatasetTask("tasks.parquet", parse(kwargs))
    made = DatasetTask("tasks.parquet", parse(tokens))
    assert [one.tokens for one in examples(made, [0], mode="train", seed=0)] in ([(1, 8)], [(2, 8)])
    table = pq.read_table(tmp_path / "tasks.parquet")
    bad = pa.array([[1, -8], [2, 8]], pa.list_(pa.int32()))
    place = table.schema.get_field_index("prompt_tokens")
    pq.write_table(table.set_column(place, "prompt_tokens", bad), tmp_path / "bad.parquet")
    with pytest.raises(DatasetUnusable, match="column 'prompt_tokens': -8 at 1 is not a token"):
        DatasetTask("bad.parquet", parse(tokens | {"on_failure": "stop"}))
