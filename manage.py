#!/usr/bin/env python
"""Django's command line."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
# `platform/` and `client/` are source folders, not packages: see docs/adr/0002.
sys.path[1:1] = [str(ROOT / "platform"), str(ROOT / "client")]

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.base")
    from django.core.management import execute_from_command_line

    from config.env import InvalidSetting

    if sys.argv[1:] in (["--version"], ["version"]):
        from config.versions import versions

        found = versions()
        sys.stdout.write(f"rolldeck {found.get('rolldeck', '?')} (Django {found['django']})\n")
        sys.exit(0)
    try:
        execute_from_command_line(sys.argv)
    except InvalidSetting as error:
        sys.exit(f"manage.py: {error}")
