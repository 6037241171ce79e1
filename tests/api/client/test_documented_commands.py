"""The quick start of the documentation, run exactly as written."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from buffer.items.models import TrajectoryGroup
from runs.access.models import ApiToken
from runs.access.services import adopt_bootstrap_token
from tests.factories import NOON

pytestmark = pytest.mark.django_db(transaction=True)

PAGE: Final = Path(__file__).parents[3] / "docs" / "howto" / "tokens.md"
ADMIN: Final = "an administrator's token"


def test_commands_of_the_quick_start_push_and_read_a_group(live_server: Any) -> None:
    section = PAGE.read_text().partition("## Quick start with curl")[2].partition("\n## ")[0]
    blocks = re.findall(r"```bash\n(.+?)```", section, re.DOTALL)
    adopt_bootstrap_token(text=ADMIN, now=NOON)

    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(blocks)],
        env={**os.environ, "ROLLDECK_URL": live_server.url, "ROLLDECK_TOKEN": ADMIN},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    group = TrajectoryGroup.objects.get()
    read_back = json.loads(done.stdout[done.stdout.index('{"results"') :])
    assert [row["id"] for row in read_back["results"]] == [str(group.pk)]
    assert ApiToken.objects.get(name="quick start").scopes == ["env", "read"]
