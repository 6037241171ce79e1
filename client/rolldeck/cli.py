"""The `rolldeck` command: view, launch and control runs from a terminal."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from itertools import islice
from textwrap import indent
from typing import Any, Final
from urllib.parse import quote

from rolldeck import __version__, api_command, track_command
from rolldeck.errors import RolldeckError
from rolldeck.http import DEFAULT_URL, Call, Connection
from rolldeck.tokenizer_files import store_tokenizer, tokenizer_json

EVENTS_PER_PAGE: Final = 200
"""Maximum `limit` of the server."""
NO_VERSION: Final = -2
"""`policy_step` of a run without a published version."""
VERBS: Final = {
    "start": "start a run, or restart a stopped or failed one",
    "pause": "pause rollouts; queued items can still be trained on",
    "resume": "resume rollouts",
    "drain": "stop rollouts, serve the queued items, then complete",
    "stop": "drain with a deadline, then stop",
    "kill": "end the fleet immediately",
}
FURTHER: Final = "rolldeck.commands"
"""Entry points of commands from other packages: ``main(argv) -> exit code``."""
SERVER_COMMANDS: Final = frozenset(
    {"admin", "demo", "evaluate", "proxy", "ray", "rollout", "serve", "up"}
)
"""Commands of the distribution `rolldeck-server`."""
Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 for success, 1 if refused or unreachable, 2 for misuse."""
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has ended. Buffered output is discarded.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return code


def _run(words: list[str]) -> int:
    further = {one.name: one for one in entry_points(group=FURTHER)}
    if words and words[0] in further:
        return int(further[words[0]].load()(words[1:]) or 0)
    if words and words[0] in SERVER_COMMANDS:
        print(
            f"rolldeck: `{words[0]}` is a command of the server, which is not installed: "
            "pip install 'rolldeck[server]', or 'rolldeck[buffer]' without Ray and torch",
            file=sys.stderr,
        )
        return 2
    args = build_parser(further.values()).parse_args(words)
    try:
        with Connection(args.url, args.token, retry_for_seconds=args.retry_for) as connection:
            command: Callable[[Connection, argparse.Namespace], object] = args.command
            answer = command(connection, args)
    except (RolldeckError, OSError) as error:
        print(f"rolldeck: {error}", file=sys.stderr)
        return 1
    print(json.dumps(answer, indent=2) if args.json else args.shown(answer))
    return 1 if isinstance(answer, dict) and answer.get("result") == "refused" else 0


def build_parser(further: Iterable[EntryPoint] = ()) -> argparse.ArgumentParser:
    """Return the parser of all built-in commands."""
    names = ", ".join(sorted(one.name for one in further))
    parser = argparse.ArgumentParser(
        prog="rolldeck",
        description="Control a Rolldeck platform.",
        epilog=f"Commands that need no platform: {names}." if names else None,
    )
    parser.add_argument("--version", action="version", version=f"rolldeck {__version__}")
    _add_options(parser, url=None, token=None, json=False, retry_for=5.0)
    # Options may precede or follow the command; the latter must not reset the former.
    late = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    _add_options(late)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, meaning: str, **defaults: object) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=meaning, description=meaning, parents=[late])
        added.set_defaults(**defaults)
        return added

    runs = command("runs", "list runs, newest first", command=_list_runs, shown=_runs_table)
    runs.add_argument("--status", help="only runs in this status")
    runs.add_argument("--project", help="only runs in this project")
    show = command(
        "show",
        "show a run with its configuration",
        command=lambda connection, args: connection.json(Call(method="GET", path=_path(args))),
        shown=_run_line,
    )
    show.add_argument("run", metavar="RUN")
    why = command(
        "why",
        "show what limits a run, and what to do",
        command=lambda connection, args: connection.json(
            Call(method="GET", path=_path(args, "/pipeline"))
        )["diagnosis"],
        shown=_diagnosis,
    )
    why.add_argument("run", metavar="RUN")
    launch = command("launch", "create a run and start it", command=_launch, shown=_run_line)
    _add_run(launch)
    launch.add_argument("--no-start", action="store_true", help="create the run, do not start it")
    check = command("check", "report problems of a launch", command=_check, shown=_findings)
    _add_run(check)
    for verb, meaning in VERBS.items():
        steer = command(verb, meaning, command=_steer, shown=_run_line, verb=verb)
        steer.add_argument("run", metavar="RUN")
        steer.add_argument("--reason", default="", help="stored with the run's events")
    events = command("events", "show events of a run", command=_list_events, shown=_events_table)
    events.add_argument("run", metavar="RUN")
    events.add_argument("--limit", type=int, default=50)
    events.add_argument(
        "--kinds", default="", help="only events of these kinds, separated by commas"
    )
    events.add_argument(
        "--details", action="store_true", help="print details such as tracebacks below each event"
    )
    tokenizer = command(
        "tokenizer",
        "store the tokenizer of a run, which shows its tokens as words",
        command=_set_tokenizer,
        shown=lambda stored: f"{stored['run']} has the tokenizer {stored['sha256']}",
    )
    tokenizer.add_argument("run", metavar="RUN")
    tokenizer.add_argument("path", metavar="PATH", help="a tokenizer.json, or its folder")
    track = command(
        "track",
        "send metrics, events and sampled rollouts of a run to a tracker",
        command=track_command.call,
        shown=track_command.shown,
    )
    track_command.add_arguments(track)
    anything = command(
        "api", "send any request to the API", command=api_command.call, shown=api_command.shown
    )
    api_command.add_arguments(anything)
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that describe a new run."""
    parser.add_argument("--project", default="", help="project of the run; its defaults apply")
    parser.add_argument(
        "--no-project-defaults",
        action="store_true",
        help="do not apply the project's default preset, configuration and tags",
    )
    parser.add_argument(
        "--preset", help="preset of the run: cartpole, curriculum, … (default: of the project)"
    )
    parser.add_argument("--name", required=True, help="letters, digits, - and _")
    parser.add_argument(
        "--config",
        type=_json_object,
        metavar="JSON",
        help="object merged over the preset and the project",
    )


def _add_options(parser: argparse.ArgumentParser, **defaults: object) -> None:
    parser.add_argument("--url", help=f"URL of the platform (ROLLDECK_URL; default {DEFAULT_URL})")
    parser.add_argument("--token", help="an API token (ROLLDECK_TOKEN)")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    parser.add_argument(
        "--retry-for", type=float, metavar="SECONDS", help="time to retry (default 5)"
    )
    parser.set_defaults(**defaults)


def _json_object(text: str) -> Row:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("not a JSON object")
    return value


def _list_runs(connection: Connection, args: argparse.Namespace) -> object:
    query = {"status": args.status, "q": args.project and f'project:"{args.project}"'}
    given = {name: value for name, value in query.items() if value}
    return list(connection.rows("/api/v1/runs", given or None))


def _launch(connection: Connection, args: argparse.Namespace) -> object:
    body = _new_run(args) | {"start": not args.no_start}
    return connection.json(Call(method="POST", path="/api/v1/runs", json=body))


def _new_run(args: argparse.Namespace) -> Row:
    """Return the fields of a new run; the server completes omitted ones from the project."""
    given = {"preset": args.preset, "config": args.config, "project": args.project or None}
    if args.no_project_defaults:
        given["uses_project_defaults"] = False
    return {"name": args.name} | {key: value for key, value in given.items() if value is not None}


def _check(connection: Connection, args: argparse.Namespace) -> object:
    body = _new_run(args)
    # The check creates environments, which may take a while; nothing is stored.
    return connection.json(
        Call(method="POST", path="/api/v1/run-checks", json=body, wait_seconds=30)
    )


def _path(args: argparse.Namespace, rest: str = "") -> str:
    return f"/api/v1/runs/{quote(args.run, safe='')}{rest}"


def _diagnosis(found: Row) -> str:
    """Return the most harmful cause, then the further ones."""
    causes = []
    for cause in (found, *found.get("further", ())):
        change = [f"What to do: {cause['change']}"] if cause["change"] else []
        evidence = (f"  {each}" for each in cause["evidence"])
        causes.append("\n".join([cause["summary"], *evidence, *change]))
    return "\n\n".join(causes)


def _steer(connection: Connection, args: argparse.Namespace) -> object:
    call = Call(method="POST", path=_path(args, f"/{args.verb}"), json={"reason": args.reason})
    return connection.json(call)


def _set_tokenizer(connection: Connection, args: argparse.Namespace) -> object:
    content = tokenizer_json(args.path)
    return {"run": args.run, "sha256": store_tokenizer(connection, _path(args), content)}


def _list_events(connection: Connection, args: argparse.Namespace) -> object:
    query = {"limit": min(args.limit, EVENTS_PER_PAGE)}
    newest = connection.rows(
        _path(args, "/events"), query | ({"kinds": args.kinds} if args.kinds else {})
    )
    found = list(islice(newest, args.limit))[::-1]
    return found if args.json or args.details else [event | {"details": {}} for event in found]


def _run_line(run: Row) -> str:
    reason = f" ({run['status_reason']})" if run.get("status_reason") else ""
    return f"{run['name']} is {run['status']}{reason}"


def _findings(check: Row) -> str:
    lines = [f"{check['result']} after {check['seconds']:g} s"]
    for one in check["findings"]:
        place = f" ({one['field']})" if one["field"] else ""
        lines.append(f"{one['level']:<8}{one['subject']}{place}: {one['message']}")
        lines += [f"        {one['remedy']}"] if one["remedy"] else []
    return "\n".join(lines)


def _runs_table(runs: list[Row]) -> str:
    if not runs:
        return "no runs"
    columns = ["name", "kind", "status", "served_steps", "policy_step", "created_at"]
    rows = [[str(run.get(name, "")) for name in columns] for run in runs]
    for row in rows:
        if row[4] == str(NO_VERSION):
            row[4] = "none yet"
    return "\n".join(_lines(columns, rows))


def _events_table(events: list[Row]) -> str:
    if not events:
        return "no events"
    columns = ["at", "level", "kind", "actor", "message"]
    rows = [[str(event.get(name, "")) for name in columns] for event in events]
    header, *lines = _lines(columns, rows)
    shown = [header]
    for line, event in zip(lines, events, strict=True):
        shown.append(line)
        # Details are indented below their event; texts such as tracebacks as lines.
        for name, value in (event.get("details") or {}).items():
            text = value.rstrip() if isinstance(value, str) else json.dumps(value)
            detail = f"{name}:\n{indent(text, '  ')}" if "\n" in text else f"{name}: {text}"
            shown.append(indent(detail, "    "))
    return "\n".join(shown)


def _lines(columns: list[str], rows: list[list[str]]) -> list[str]:
    lines = [columns, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


if __name__ == "__main__":
    sys.exit(main())
