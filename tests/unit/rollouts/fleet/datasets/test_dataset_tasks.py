"""Data sets as tasks: formats, splits, order, unusable data and tool servers."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollouts.fleet.datasets.dataset_task import DatasetTask
from rollouts.fleet.datasets.rows import DatasetUnusable, column_problem, listed
from rollouts.fleet.tools.server import ToolServer, ToolsUnusable
from rollouts.tasks.rules.dataset_config import parse
from rollouts.tasks.rules.task import examples
from tests.unit.rollouts.fleet.datasets.dataset_files import sums, write_jsonl, write_parquet


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROLLDECK_DATASETS", str(tmp_path))
    return tmp_path


def task(name: str, **kwargs: Any) -> DatasetTask:
    return DatasetTask(name, parse(kwargs))


def prompts(made: DatasetTask, numbers: range, *, mode: Any = "train", seed: int = 0) -> list[str]:
    return [one.prompt for one in examples(made, numbers, mode=mode, seed=seed)]


@pytest.mark.parametrize("write", [write_jsonl, write_parquet])
def test_a_file_is_divided_into_disjoint_rows(folder: Path, write: Callable[..., Path]) -> None:
    suffix = write.__name__.removeprefix("write_")
    write(folder / f"sums.{suffix}", sums(20))
    made = task(f"sums.{suffix}", eval_share=0.25)

    assert (made.rows("train"), made.rows("eval")) == (15, 5)
    trained, evaluated = prompts(made, range(15)), prompts(made, range(5), mode="eval")
    assert sorted(trained + evaluated) == sorted(row["prompt"] for row in sums(20))
    [problem] = examples(made, [0], mode="train", seed=0)
    assert problem.answer == str(int(problem.prompt.partition("+")[0]) + 1)
    assert made.demonstrate(problem) == (problem.answer,)


@pytest.mark.parametrize("write", [write_jsonl, write_parquet])
def test_a_folder_has_a_file_per_split(folder: Path, write: Callable[..., Path]) -> None:
    suffix = write.__name__.removeprefix("write_")
    write(folder / f"sums/train.{suffix}", sums(4))
    write(folder / f"sums/test.{suffix}", sums(2, start=90))

    made = task("sums", eval_split="test")

    assert sorted(prompts(made, range(4))) == ["0+1=", "1+1=", "2+1=", "3+1="]
    assert sorted(prompts(made, range(2), mode="eval")) == ["90+1=", "91+1="]


def test_each_pass_contains_every_row_in_an_order_of_the_seed(folder: Path) -> None:
    write_jsonl(folder / "sums.jsonl", sums(40))
    made, again = task("sums.jsonl"), task("sums.jsonl")
    size = made.rows("train")

    first, second = prompts(made, range(size)), prompts(made, range(size, 2 * size))
    assert sorted(first) == sorted(second)
    assert len(set(first)) == size
    assert first != second
    assert prompts(again, range(size)) == first
    assert prompts(made, range(size), seed=1) != first


def test_the_seed_of_the_split_selects_the_rows_held_out(folder: Path) -> None:
    write_jsonl(folder / "sums.jsonl", sums(40))
    held_out = [
        set(prompts(task("sums.jsonl", split_seed=seed), range(4), mode="eval")) for seed in (0, 1)
    ]

    assert held_out[0] != held_out[1]


def test_columns_template_and_other_values_than_text(folder: Path) -> None:
    rows = [{"q": f"{n} plus 1", "a": n + 1, "level": "easy"} for n in range(3)]
    write_jsonl(folder / "sums.jsonl", rows)
    made = task("sums.jsonl", prompt="q", answer="a", template="Q: {}\nA: ")

    found = {one.prompt: one.answer for one in examples(made, range(2), mode="train", seed=0)}

    assert found.items() <= {f"Q: {n} plus 1\nA: ": str(n + 1) for n in range(3)}.items()
    assert made.problem(0, mode="train", seed=0).row["level"] == "easy"


def test_prompts_may_be_messages(folder: Path) -> None:
    messages = [{"role": "user", "content": "1+1"}]
    write_jsonl(folder / "chat.jsonl", [{"prompt": messages, "answer": "2"}] * 2)

    problem = task("chat.jsonl", chat=True, system="Be brief.").problem(0, mode="train", seed=0)

    assert problem.messages == ({"role": "system", "content": "Be brief."}, *messages)
    with pytest.raises(DatasetUnusable, match="messages require chat"):
        task("chat.jsonl")


@pytest.mark.parametrize(
    ("content", "kwargs", "kind", "text"),
    [
        ("", {}, "dataset_invalid", "sums.jsonl: contains no rows"),
        ("\n \n", {}, "dataset_invalid", "sums.jsonl: contains no rows"),
        (
            '{"question": "1+1", "answer": "2"}\n',
            {},
            "dataset_invalid",
            "line 1: column 'prompt' is missing; columns: question, answer",
        ),
        ('{"prompt": "1+1"}\n', {}, "dataset_invalid", "column 'answer' is missing"),
        ('{"prompt": null, "answer": "2"}\n', {}, "dataset_invalid", "column 'prompt' is null"),
        ('{"prompt": 7, "answer": "2"}\n', {}, "dataset_invalid", "int, expected a text"),
        ("not json\n", {}, "dataset_invalid", "line 1: not a JSON object"),
        ("[1]\n", {}, "dataset_invalid", "line 1: not a JSON object"),
        (b'{"prompt": "\xff", "answer": ""}\n', {}, "dataset_invalid", "line 1: not a JSON"),
        ('{"prompt": "1", "answer": ""}\n', {}, "dataset_invalid", "1 row, at least 2 needed"),
        ("", {"eval_split": "test"}, "dataset_invalid", "a single file has no splits"),
    ],
)
def test_unusable_data_has_a_reason(
    folder: Path, content: str | bytes, kwargs: dict[str, Any], kind: str, text: str
) -> None:
    raw = content if isinstance(content, bytes) else content.encode()
    (folder / "sums.jsonl").write_bytes(raw)

    with pytest.raises(DatasetUnusable) as failure:
        task("sums.jsonl", **kwargs)

    assert failure.value.kind == kind
    assert text in str(failure.value)


def test_a_missing_data_set_has_its_own_kind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DatasetUnusable, match=r"absent\.jsonl does not exist below") as failure:
        task("absent.jsonl")
    assert failure.value.kind == "dataset_missing"

    monkeypatch.delenv("ROLLDECK_DATASETS")
    with pytest.raises(DatasetUnusable, match="ROLLDECK_DATASETS is not set on this machine"):
        task("absent.jsonl")


@pytest.mark.parametrize("write", [write_jsonl, write_parquet])
def test_a_row_of_ten_megabytes_is_left_out_or_stops_the_lesson(
    folder: Path, write: Callable[..., Path]
) -> None:
    name = f"sums.{write.__name__.removeprefix('write_')}"
    long = {"prompt": "x" * 10_000_000, "answer": ""}
    write(folder / name, [*sums(4), long, *sums(4, start=4)])

    made = task(name)

    assert made.skipped_rows == 1
    assert "at most 1,048,576 allowed" in made.skipped[0]
    assert made.rows("train") + made.rows("eval") == 8
    assert "x" not in "".join(prompts(made, range(7)))
    with pytest.raises(DatasetUnusable, match="at most 1,048,576 allowed"):
        task(name, on_failure="stop")


def test_a_damaged_parquet_file_is_named(folder: Path) -> None:
    write_parquet(folder / "sums.parquet", sums(4))
    content = (folder / "sums.parquet").read_bytes()
    (folder / "sums.parquet").write_bytes(content[: len(content) // 2])

    with pytest.raises(DatasetUnusable, match=r"sums\.parquet: not a Parquet file"):
        task("sums.parquet")


def test_a_file_of_another_kind_and_an_absent_split_are_named(folder: Path) -> None:
    (folder / "sums.csv").write_text("prompt,answer\n")
    write_jsonl(folder / "parts/train.jsonl", sums(2))

    with pytest.raises(DatasetUnusable, match=r"use a \.jsonl or \.parquet file"):
        task("sums.csv")
    with pytest.raises(DatasetUnusable, match=r"contains no test\.jsonl or test\.parquet"):
        task("parts", eval_split="test")


@pytest.mark.parametrize(
    ("kwargs", "field", "text"),
    [
        ({}, None, ""),
        ({"prompt": "question"}, "prompt", "no column 'question'; columns: prompt, answer"),
        ({"answer": "solution"}, "answer", "no column 'solution'"),
        ({"answer": ""}, None, ""),
        ({"eval_split": "test"}, "eval_split", "is a single file"),
    ],
)
@pytest.mark.parametrize("write", [write_jsonl, write_parquet])
def test_the_columns_are_checked_from_the_first_row(
    folder: Path,
    write: Callable[..., Path],
    kwargs: dict[str, Any],
    field: str | None,
    text: str,
) -> None:
    name = f"sums.{write.__name__.removeprefix('write_')}"
    write(folder / name, sums(3))

    found = column_problem(name, parse(kwargs), root=str(folder))

    if field is None:
        assert found is None
    else:
        assert found is not None
        assert found[0] == field
        assert text in found[1]


def test_a_missing_split_is_an_error_of_its_argument(folder: Path) -> None:
    write_jsonl(folder / "sums" / "train.jsonl", sums(3))

    for field in ("train_split", "eval_split"):
        assert column_problem("sums", parse({field: "dev"}), root=str(folder)) == (
            field,
            "sums: contains no dev.jsonl or dev.parquet",
        )


def test_an_empty_file_is_found_and_an_absent_one_is_left_to_workers(folder: Path) -> None:
    (folder / "empty.jsonl").write_text("\n")

    assert column_problem("empty.jsonl", parse({}), root=str(folder)) == (
        "",
        "empty.jsonl: contains no rows",
    )
    assert column_problem("absent.jsonl", parse({}), root=str(folder)) is None
    assert column_problem("empty.jsonl", parse({}), root="") is None


def test_usable_names_are_listed(folder: Path) -> None:
    write_jsonl(folder / "sums.jsonl", sums(1))
    write_jsonl(folder / "parts/train.jsonl", sums(1))
    (folder / "notes.txt").write_text("")
    (folder / ".hidden").mkdir()

    assert listed(str(folder)) == ["parts", "sums.jsonl"]
    assert listed("") == listed(str(folder / "absent")) == []


@pytest.mark.parametrize(
    ("setting", "kind", "text"),
    [
        ("", "environment_unknown", "'calc' is not in this machine's ROLLDECK_TOOL_SERVERS"),
        ('{"calc": {}}', "environment_failed", "missing required field `command`"),
        (
            '{"calc": {"command": "x"}}',
            "dependency_missing",
            "pip install 'rolldeck-server[prompts]'",
        ),
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
