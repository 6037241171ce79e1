#!/usr/bin/env python
"""Django's command line."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
# `platform/` and `client/` are source folders, not packages: see docs/adr/0002.
sys.path[1:1] = [str(ROOT / "platform"), str(ROOT / "client")]

if __name__ == "__main__":
    from config.command_line import run

    run(sys.argv)
