"""The reference of the command line, written from its commands.

::

    python -m rolldeck.cli_reference > docs/reference/cli.md
"""

from collections.abc import Iterator
from typing import Final

import click

from rolldeck.cli import root
from rolldeck.commands.base import SHARED, Group

HEAD: Final = """\
# The `rolldeck` command

The command is part of the client package; `rolldeck[server]` adds the commands of the section \
*Server*. Commands are nouns with verbs: `rolldeck run create`, `rolldeck token ls`. This page is \
written from the command: `rolldeck COMMAND --help` shows the same.

URL and token come from `--url` and `--token`, else from `ROLLDECK_URL` and `ROLLDECK_TOKEN`, else \
from the profile that `rolldeck login` stores in the user's configuration folder \
(`~/.config/rolldeck/profile.toml` on Linux, readable only by the user), else the URL is \
`http://127.0.0.1:8000`. A token is sent only to the platform that it belongs to. The client's \
classes use the same order.

`--url`, `--token`, `--json` and `--retry-for SECONDS` may precede or follow a command. `--json` \
prints the API's answer. An error is one line on standard error:

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | refused, unreachable, or a failed check |
| 2 | invalid usage |
| 130 | Ctrl-C |
| 141 | the reader of the output has ended, for example `head` |

`eval "$(rolldeck completion bash)"` completes commands, options and the names of runs; `zsh` and \
`fish` work the same.
"""
AFTER: Final = {
    "run create": """\
A file has the fields of the run and the sections of its configuration side by side; the launch \
form's YAML is such a file. `--set` and the other options win over it. An unknown field is an \
error with file, line and the nearest name.

```yaml
name: first
preset: cartpole
fleet:
  num_workers: 2
buffer:
  batch_size: 16
```

```
rolldeck run create -f run.yaml --set fleet.num_workers=4
run.yaml:4: fleet.num_worker: unknown field; did you mean fleet.num_workers?
```
""",
    "run track": "[Trackers](../howto/trackers.md) has examples.\n",
    "archive sequences": (
        "The columns are in [archives](archive.md); "
        "[examples](../howto/archive.md#use-it-as-a-data-set).\n"
    ),
    "api": """\
```
rolldeck api GET runs/demo/queue
rolldeck api POST runs/demo/weights/pin step=120 reason="the newest one collapsed"
rolldeck api POST run-actions action=tag tag=ppo ids=[7,8] reason=WHY
rolldeck api PATCH runs/RUN max_staleness=4 num_workers=8 reason=WHY
rolldeck api PUT runs/RUN/notes --body @FILE
rolldeck api POST alerts/snoozes alert=12 until=2027-01-01T00:00:00Z reason=WHY
```

The [API](openapi.json) lists every route with its fields.
""",
    "admin": """\
`createsuperuser`, `login_link`, `backup`, `restore_backup` and others; in a checkout also \
`python manage.py COMMAND`.
""",
    "inference": "[Serving](../howto/serving.md) has examples.\n",
    "proxy": "[Capture](../howto/capture.md) has examples.\n",
    "rollout": (
        "[Environments](../howto/environments.md#roll-out-without-a-platform) and [lessons]"
        "(../howto/language.md#how-do-i-use-the-rollout-manager-without-a-platform) have "
        "examples.\n"
    ),
    "evaluate": "[Lessons](../howto/lessons.md) have examples.\n",
    "evaluate policy": "[Policies](../howto/policies.md#evaluate-a-run) have examples.\n",
}
"""Text after the options of a command."""


def page() -> str:
    """Return the page in Markdown."""
    command = root()
    context = click.Context(command, info_name="rolldeck")
    parts = [HEAD, _list(command)]
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None  # noqa: S101
        parts += _sections(found, click.Context(found, context, info_name=name))
    return "\n".join(parts)


def _list(command: Group) -> str:
    sections: dict[str, list[str]] = {}
    for name, lazy in command.lazy.items():
        line = f"[`{name}`](#rolldeck-{name})"
        sections.setdefault(lazy.section, []).append(line)
    rows = [f"| {title} | {', '.join(names)} |" for title, names in sections.items()]
    return "\n".join(["| part | commands |", "|---|---|", *rows, ""])


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    path = context.command_path
    if isinstance(command, click.Group) and not command.invoke_without_command:
        yield f"## {path}\n\n{command.help}\n"
        yield from _subcommands(command, context)
        return
    depth = "##" if context.parent and context.parent.parent is None else "###"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"{depth} {path}\n\n{_text(command.help)}\n\n```\n{path} {usage}\n```\n"
    rows = []
    for option in command.params:
        if not isinstance(option, click.Option) or option.name in SHARED or option.hidden:
            continue
        (names, meaning) = option.get_help_record(context) or ("", "")
        cells = (f"`{names}`", meaning.replace("  [required]", " Required."))
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    if rows:
        yield "\n".join(["| option | meaning |", "|---|---|", *rows, ""])
    if path.removeprefix("rolldeck ") in AFTER:
        yield AFTER[path.removeprefix("rolldeck ")]
    if isinstance(command, click.Group):
        yield from _subcommands(command, context)


def _subcommands(command: click.Group, context: click.Context) -> Iterator[str]:
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None  # noqa: S101
        yield from _sections(found, click.Context(found, context, info_name=name))


def _text(text: str | None) -> str:
    """Return a docstring with its paragraphs as lines."""
    paragraphs = (text or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


if __name__ == "__main__":
    click.echo(page(), nl=False)
