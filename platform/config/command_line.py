"""Django's command line with the platform's settings, of `manage.py` and of `rolldeck admin`."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from config.env import InvalidSetting
from config.versions import versions


def run(argv: Sequence[str]) -> None:
    """Run one command.

    Args:
        argv: The program's name as help and errors show it, the command, and its arguments.

    Raises:
        SystemExit: With the reason, if a setting is invalid; with a code, from the command.
    """
    program, *words = argv
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.base")
    if words in (["--version"], ["version"]):
        found = versions()
        sys.stdout.write(f"rolldeck {found['rolldeck']} (Django {found['django']})\n")
        return
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(list(argv))
    except InvalidSetting as error:
        sys.exit(f"{Path(program).name}: {error}")
