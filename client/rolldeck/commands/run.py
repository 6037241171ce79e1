"""Commands `rolldeck run`: create, watch and control runs."""

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from textwrap import indent
from typing import Any, Final
from urllib.parse import quote

import click

from rolldeck.client import ENDED, POLL_SECONDS, Client
from rolldeck.commands.base import (
    ApiCommand,
    Group,
    Lazy,
    Row,
    State,
    aligned,
    counted,
    data_command,
    reason_option,
    run_argument,
    table,
)
from rolldeck.commands.run_file import RunFile
from rolldeck.http import Call, Connection
from rolldeck.tokenizer_files import store_tokenizer, tokenizer_json

EVENTS_PER_PAGE: Final = 200
"""Maximum `limit` of the server."""
NO_VERSION: Final = -2
"""`policy_step` of a run without a published version."""
VERBS: Final = {
    "start": "Start a run, or restart a stopped or failed one.",
    "pause": "Pause rollouts; queued items can still be trained on.",
    "resume": "Resume rollouts.",
    "drain": "Stop rollouts, serve the queued items, then complete.",
    "stop": "Drain with a deadline, then stop.",
    "kill": "End the fleet immediately.",
}
CHECKED: Final = ("name", "preset", "project", "uses_project_defaults", "config")
"""Fields of a run that a check takes."""
CHECK_SECONDS: Final = 30
"""A check creates environments, which may take a while."""

run = Group(
    "run",
    help="Create, watch and control runs.",
    no_args_is_help=True,
    lazy={
        "track": Lazy(
            "rolldeck.commands.track:track_run",
            "Send metrics, events and sampled rollouts of a run to a tracker.",
        )
    },
)


def _new_run_options(function: Any) -> Any:
    """Add the options that describe a new run."""
    options = [
        click.option("--name", help="Letters, digits, - and _; or `name` of the file."),
        click.option(
            "-f",
            "--file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="YAML or JSON: fields of the run, and sections of its configuration.",
        ),
        click.option(
            "--set",
            "assignments",
            multiple=True,
            metavar="FIELD=VALUE",
            help="Field of the file or of the preset, such as fleet.num_workers=4; repeatable.",
        ),
        click.option("--preset", help="cartpole, curriculum, … (default: of the project)."),
        click.option("--project", help="Project of the run; its defaults apply."),
        click.option(
            "--no-project-defaults",
            is_flag=True,
            help="Do not apply the project's preset, configuration and tags.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def _new_run(file: Path | None, assignments: tuple[str, ...], given: Row) -> RunFile:
    """Return the file with the options over it; the project completes omitted fields."""
    new = RunFile.read(file) if file else RunFile()
    new.set(assignments)
    if given.pop("no_project_defaults"):
        new.fields["uses_project_defaults"] = False
    new.fields |= {name: value for name, value in given.items() if value}
    if not new.fields.get("name"):
        raise click.UsageError("the run needs a name: --name, or `name` in the file")
    return new


def _run_line(row: Row) -> str:
    reason = f" ({row['status_reason']})" if row.get("status_reason") else ""
    return f"{row['name']} is {row['status']}{reason}"


@data_command(run, "create", _run_line)
@_new_run_options
@click.option("--kind", type=click.Choice(["fleet", "outside"]), help="Default: fleet.")
@click.option("--tag", "tags", multiple=True, help="Tag of the run; repeatable.")
@click.option("--no-start", is_flag=True, help="Create the run, do not start it.")
def create(
    connection: Connection,
    file: Path | None,
    assignments: tuple[str, ...],
    tags: tuple[str, ...],
    no_start: bool,
    **given: Any,
) -> object:
    """Create a run and start it."""
    new = _new_run(file, assignments, given | {"tags": [*tags]})
    body = {"start": True} | new.body() | ({"start": False} if no_start else {})
    return new.send(connection, "/api/v1/runs", body)


def _findings(check: Row) -> str:
    lines = [f"{check['result']} after {check['seconds']:g} s"]
    for one in check["findings"]:
        place = f" ({one['field']})" if one["field"] else ""
        lines.append(f"{one['level']:<8}{one['subject']}{place}: {one['message']}")
        lines += [f"        {one['remedy']}"] if one["remedy"] else []
    return "\n".join(lines)


@data_command(run, "check", _findings, fails=lambda check: check.get("result") == "refused")
@_new_run_options
def check_run(
    connection: Connection, file: Path | None, assignments: tuple[str, ...], **given: Any
) -> object:
    """Report problems of a run without creating it."""
    new = _new_run(file, assignments, given)
    if new.fields.get("kind") == "outside":
        raise click.UsageError("an outside run has no fleet to check")
    body = {name: value for name, value in new.body().items() if name in CHECKED}
    return new.send(connection, "/api/v1/run-checks", body, seconds=CHECK_SECONDS)


def _runs_table(runs: list[Row]) -> str:
    columns = ["name", "kind", "status", "served_steps", "policy_step", "created_at"]
    rows = [
        row | {"policy_step": "none yet" if row.get("policy_step") == NO_VERSION else step}
        for row in runs
        for step in [row.get("policy_step")]
    ]
    return table(columns, rows, "no runs")


@data_command(run, "ls", _runs_table)
@click.option("--status", help="Only runs in this status.")
@click.option("--project", help="Only runs in this project.")
@click.option("--filter", "query", help="Filter as on the page Runs, such as 'tag:baseline'.")
def list_runs(
    connection: Connection, status: str | None, project: str | None, query: str | None
) -> object:
    """List runs, newest first."""
    words = [f'project:"{project}"' if project else "", query or ""]
    given = {"status": status, "q": " ".join(filter(None, words))}
    return list(
        connection.rows("/api/v1/runs", {name: value for name, value in given.items() if value})
    )


def _shown_run(row: Row) -> str:
    """Return the fields that have a value, then the configuration in YAML."""
    from io import StringIO

    from ruamel.yaml import YAML

    config = row.get("config")
    fields = {name: value for name, value in row.items() if name != "config"}
    rows = [
        [name, value if isinstance(value, str) else json.dumps(value)]
        for name, value in fields.items()
        if value not in (None, "", [], {})
    ]
    text = "\n".join(aligned(rows))
    if not config:
        return text
    written = StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.dump(config, written)
    return f"{text}\nconfig\n{indent(written.getvalue().rstrip(), '  ')}"


@data_command(run, "show", _shown_run)
@run_argument
def show(connection: Connection, run: str) -> object:
    """Show the fields and the configuration of a run."""
    return connection.json(Call(method="GET", path=path_of(run)))


def _diagnosis(found: Row) -> str:
    """Return the most harmful cause, then the further ones."""
    causes = []
    for cause in (found, *found.get("further", ())):
        change = [f"What to do: {cause['change']}"] if cause["change"] else []
        evidence = (f"  {each}" for each in cause["evidence"])
        causes.append("\n".join([cause["summary"], *evidence, *change]))
    return "\n\n".join(causes)


@data_command(run, "why", _diagnosis)
@run_argument
def why(connection: Connection, run: str) -> object:
    """Show what limits a run, and what to do."""
    return connection.json(Call(method="GET", path=path_of(run, "/pipeline")))["diagnosis"]


def _add_verb(verb: str, meaning: str) -> None:
    def act(connection: Connection, run: str, reason: str, yes: bool = True) -> object:
        if not yes and sys.stdin.isatty():
            click.confirm(f"End the fleet of {run} now, without its running fragments?", abort=True)
        call = Call(method="POST", path=path_of(run, f"/{verb}"), json={"reason": reason})
        return connection.json(call)

    act.__doc__ = meaning
    if verb == "kill":
        act = click.option("-y", "--yes", is_flag=True, help="Ask no question.")(act)
    data_command(run, verb, _run_line)(run_argument(reason_option(act)))


for _verb, _meaning in VERBS.items():
    _add_verb(_verb, _meaning)


def _deletion(row: Row) -> str:
    items = counted(row["items"], "item", "items")
    return f"{row['run']} is deleted; the server removes {items} in the background"


@data_command(run, "delete", _deletion)
@run_argument
@click.option("--reason", required=True, help="Reason for the audit log.")
@click.option("-y", "--yes", is_flag=True, help="Ask no question.")
def delete(connection: Connection, run: str, reason: str, yes: bool) -> object:
    """Delete a run that is not active, with its rows and bytes."""
    found = Client(connection=connection).runs.get(run)
    if not yes and sys.stdin.isatty():
        click.confirm(f"Delete {run} with all its data?", abort=True)
    return found.delete(reason)


@run.command("wait", cls=ApiCommand)
@run_argument
@click.option(
    "--until",
    multiple=True,
    metavar="STATUS",
    help="Status to wait for; repeatable (default: until the run has ended).",
)
@click.option("--timeout", type=click.FloatRange(0), metavar="SECONDS", help="Longest wait.")
def wait(state: State, run: str, until: tuple[str, ...], timeout: float | None) -> int:
    """Wait for a status of a run; exit code 1 if it ends with another, or fails."""
    with state.connected() as connection:
        waited = Client(connection=connection).runs.get(run)
        waited.wait(until or ENDED, timeout_seconds=timeout)
    state.print(waited.row, _run_line)
    return int(waited.status == "failed" and "failed" not in until)


@run.command("logs", cls=ApiCommand)
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Print further lines until the run ends.")
@click.option("--worker", type=int, help="Index of a worker (default: the manager).")
@click.option("--slot", type=int, help="Env slot of the worker.")
def logs(state: State, run: str, follow: bool, worker: int | None, slot: int | None) -> None:
    """Print the newest 1,000 lines of a log of the fleet; with --json a text a line."""
    with state.connected() as connection:
        found = Client(connection=connection).runs.get(run)
        for line in found.logs(worker=worker, slot=slot, follow=follow):
            click.echo(json.dumps(line) if state.as_json else line)
            sys.stdout.flush()


@run.command("events", cls=ApiCommand)
@run_argument
@click.option("--limit", type=click.IntRange(1), default=50, help="Newest events (default 50).")
@click.option("--kinds", default="", help="Only events of these kinds, separated by commas.")
@click.option("--details", is_flag=True, help="Print details such as tracebacks below each event.")
@click.option("-f", "--follow", is_flag=True, help="Print further events until the run ends.")
def events(state: State, run: str, limit: int, kinds: str, details: bool, follow: bool) -> None:
    """Print the events of a run, oldest first; with --json and --follow an object a line."""
    query = {"limit": min(limit, EVENTS_PER_PAGE)} | ({"kinds": kinds} if kinds else {})
    with state.connected() as connection:
        newest = connection.rows(path_of(run, "/events"), query)
        found = list(islice(newest, limit))[::-1]
        if not follow:
            state.print(found, lambda rows: _events_table(rows, details=details))
            return
        for event in _further_events(connection, run, query, found):
            shown = _events_table([event], details=details).partition("\n")[2]
            click.echo(json.dumps(event) if state.as_json else shown)
            sys.stdout.flush()


def _further_events(
    connection: Connection, run: str, query: Row, found: list[Row]
) -> Iterator[Row]:
    import time

    watched = Client(connection=connection).runs.get(run)
    newest = 0
    while True:
        yield from found
        newest = max([newest, *(event["id"] for event in found)])
        if watched.refresh().status in ENDED and not found:
            return
        time.sleep(POLL_SECONDS)
        found = []
        for event in connection.rows(path_of(run, "/events"), query):
            if event["id"] <= newest:
                break
            found.insert(0, event)


def _events_table(events: list[Row], *, details: bool) -> str:
    if not events:
        return "no events"
    columns = ["at", "level", "kind", "actor", "message"]
    rows = [[str(event.get(name, "")) for name in columns] for event in events]
    header, *lines = aligned([columns, *rows])
    shown = [header]
    for line, event in zip(lines, events, strict=True):
        shown.append(line)
        # Details are indented below their event; texts such as tracebacks as lines.
        for name, value in (event.get("details") or {}).items() if details else ():
            text = value.rstrip() if isinstance(value, str) else json.dumps(value)
            detail = f"{name}:\n{indent(text, '  ')}" if "\n" in text else f"{name}: {text}"
            shown.append(indent(detail, "    "))
    return "\n".join(shown)


@data_command(
    run, "tokenizer", lambda stored: f"{stored['run']} has the tokenizer {stored['sha256']}"
)
@run_argument
@click.argument("path", metavar="PATH")
def tokenizer(connection: Connection, run: str, path: str) -> object:
    """Store the tokenizer of a run, which shows its tokens as words.

    PATH is a tokenizer.json, or its folder.
    """
    content = tokenizer_json(path)
    return {"run": run, "sha256": store_tokenizer(connection, path_of(run), content)}


def path_of(run: str, rest: str = "") -> str:
    """Return the path of a run in the API, or of a route below it."""
    return f"/api/v1/runs/{quote(run, safe='')}{rest}"
