"""Django's command line with the platform's settings, of `manage.py` and of `rolldeck admin`."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from config.env import InvalidSetting
from config.versions import versions
from rolldeck.cli import main as rolldeck

SETTINGS: Final = ("DJANGO_SETTINGS_MODULE", "config.settings.base")


def set_up() -> None:
    """Set up Django with the platform's settings.

    Raises:
        InvalidSetting: If a setting is invalid.
    """
    os.environ.setdefault(*SETTINGS)
    import django

    django.setup()


def run(argv: Sequence[str]) -> None:
    """Run one command; `up` and `demo` are commands of `rolldeck`.

    Args:
        argv: The program's name as help and errors show it, the command, and its arguments.

    Raises:
        SystemExit: With the reason, if a setting is invalid; with a code, from the command.
    """
    program, *words = argv
    if words in (["--version"], ["version"]):
        found = versions()
        sys.stdout.write(f"rolldeck {found['rolldeck']} (Django {found['django']})\n")
        return
    if words[:1] in (["up"], ["demo"]):
        sys.exit(rolldeck(words))
    os.environ.setdefault(*SETTINGS)
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(list(argv))
    except InvalidSetting as error:
        sys.exit(f"{Path(program).name}: {error}")
