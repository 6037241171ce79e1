"""Commands `rolldeck archive`: export items of a run to Parquet, and use the files."""

import time
from pathlib import Path
from typing import Any, Final

import click

from rolldeck.commands.base import (
    ApiCommand,
    Failure,
    Group,
    Row,
    State,
    counted,
    data_command,
    reason_option,
    run_argument,
    table,
)
from rolldeck.commands.run import path_of
from rolldeck.http import Call, Connection

POLL_SECONDS: Final = 0.5
PIECE_BYTES: Final = 1 << 20
FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
OUT: Final = click.Path(dir_okay=False, writable=True, path_type=Path)

archive = Group(
    "archive", help="Export items of a run to Parquet, and use the files.", no_args_is_help=True
)
number_argument = click.argument("number", metavar="ID", type=click.IntRange(1))


def _line(row: Row) -> str:
    reason = f" ({row['error']})" if row.get("error") else ""
    return f"archive {row['id']} is {row['state']}{reason}"


@data_command(archive, "create", _line, fails=lambda row: bool(row["state"] == "failed"))
@run_argument
@click.option(
    "--state",
    "states",
    type=click.Choice(["served", "dropped"]),
    multiple=True,
    help="Items in this state; repeatable (default: both).",
)
@click.option("--steps", default="", help="Served steps, such as 10-20.")
@click.option("--env-id", "env_ids", type=int, multiple=True, help="Environment; repeatable.")
@click.option("--wait", is_flag=True, help="Wait until the file is complete.")
def create(
    connection: Connection,
    run: str,
    states: tuple[str, ...],
    steps: str,
    env_ids: tuple[int, ...],
    wait: bool,
) -> object:
    """Write an archive of served and dropped items in the background."""
    body = {"states": [*states], "steps": steps, "env_ids": [*env_ids] or None}
    path = path_of(run, "/archives")
    row = connection.json(Call(method="POST", path=path, json=body))
    while wait and row["state"] in {"queued", "working"}:
        time.sleep(POLL_SECONDS)
        row = connection.json(Call(method="GET", path=f"{path}/{row['id']}"))
    return row


def _archives_table(rows: list[Row]) -> str:
    columns = ["id", "verb", "state", "has_file", "asked_by", "created_at", "finished_at"]
    return table(columns, rows, "no archives")


@data_command(archive, "ls", _archives_table)
@run_argument
def list_archives(connection: Connection, run: str) -> object:
    """List archives and restorations of a run, newest first."""
    return list(connection.rows(path_of(run, "/archives")))


@archive.command("download", cls=ApiCommand)
@run_argument
@number_argument
@click.option("--out", type=OUT, help="Target file (default RUN-ID.parquet).")
def download(state: State, run: str, number: int, out: Path | None) -> None:
    """Download the file of an archive."""
    target = out or Path(f"{run}-{number}.parquet")
    part = target.with_name(f".{target.name}.part")
    path = path_of(run, f"/archives/{number}/file")
    try:
        with (
            state.connected() as connection,
            connection.opened(path, {}) as answer,
            part.open("wb") as file,
        ):
            for piece in answer.stream(PIECE_BYTES):
                file.write(piece)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    row = {"file": str(target), "bytes": target.stat().st_size}
    state.print(row, lambda _: f"{target}: {row['bytes']:,} bytes")


@data_command(archive, "delete", lambda row: f"archive {row['id']} is deleted")
@run_argument
@number_argument
@reason_option
def delete(connection: Connection, run: str, number: int, reason: str) -> object:
    """Delete the file of an archive."""
    params = {"reason": reason} if reason else None
    path = path_of(run, f"/archives/{number}")
    return connection.json(Call(method="DELETE", path=path, params=params)) or {"id": number}


@archive.command("sequences")
@click.argument("file", type=FILE, metavar="FILE")
@click.option("--out", type=OUT, required=True, help="Output file.")
@click.option("--tasks", is_flag=True, help="One row per group, with its prompt, for lessons.")
@click.option("--tag", default="", help="Only groups with this tag.")
@click.option(
    "--lowest-below", type=float, metavar="SCORE", help="With --tasks: lowest score below SCORE."
)
@click.option(
    "--highest-above", type=float, metavar="SCORE", help="With --tasks: highest score above SCORE."
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def sequences(
    file: Path,
    out: Path,
    tasks: bool,
    tag: str,
    lowest_below: float | None,
    highest_above: float | None,
    as_json: bool,
) -> None:
    """Write the groups of a downloaded archive as a Parquet table of sequences or tasks."""
    if not tasks and (lowest_below is not None or highest_above is not None):
        raise click.UsageError("--lowest-below and --highest-above select tasks; add --tasks")
    tables = _tables()
    selection = tables.Selection(lowest_below, highest_above)
    left_out = ""
    try:
        if tasks:
            written = tables.write_tasks(file, out, selection, tag=tag)
            count, left_out = len(written), written.left_out
        else:
            count = tables.write_sequences(file, out, tag=tag)
    except tables.ArchiveUnreadableError as error:
        raise Failure(str(error)) from error
    noun = ("task", "tasks") if tasks else ("sequence", "sequences")
    row = {"file": str(out), "rows": count}
    state = State(as_json=as_json)
    state.print(row, lambda _: f"{out}: {counted(count, *noun)}{left_out}")


def _tables() -> Any:
    """Return the module of the tables, which needs pyarrow."""
    try:
        from rolldeck import sequences as tables
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise Failure("pyarrow is not installed: pip install 'rolldeck[parquet]'") from error
    return tables
