"""The quick start of the documentation, run exactly as written."""

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from buffer.items.models import TrajectoryGroup
from runs.access.models import ApiToken
from runs.access.services.tokens import adopt_bootstrap_token
from tests.documented import run_page
from tests.factories import NOON

pytestmark = pytest.mark.django_db(transaction=True)

ADMIN: Final = "an administrator's token"


def test_commands_of_the_quick_start_push_and_read_a_group(
    live_server: Any, tmp_path: Path
) -> None:
    adopt_bootstrap_token(text=ADMIN, now=NOON)

    output = run_page(
        "howto/tokens.md",
        section="Quick start with curl",
        folder=tmp_path,
        environment={
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "ROLLDECK_URL": live_server.url,
            "ROLLDECK_TOKEN": ADMIN,
        },
    )

    group = TrajectoryGroup.objects.get()
    read_back, _ = json.JSONDecoder().raw_decode(output[output.index('{"results"') :])
    assert [row["id"] for row in read_back["results"]] == [str(group.pk)]
    assert ApiToken.objects.get(name="quick start").scopes == ["env", "read"]
