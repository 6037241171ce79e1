"""Messages of fleets can be stored, with arbitrary texts of environments and policies."""

import msgspec
import pytest

from rolldeck.wire import FleetEvent
from rollouts.fleet.process.storable import to_json
from web.rules import json_shape


@pytest.mark.parametrize("text", ["plain", "é \\u0000 as text", "a\0b", "half \ud800", "\udc00\0"])
def test_only_unstorable_characters_are_replaced(text: str) -> None:
    event = FleetEvent(kind="k", message=text, details={text: [text, 1, None, True, 0.5]})

    content = to_json(event)

    json_shape.check(msgspec.json.decode(content))
    expected = "".join(
        "\ufffd" if character == "\0" or "\ud800" <= character <= "\udfff" else character
        for character in text
    )
    decoded = msgspec.json.decode(content, type=FleetEvent)
    assert decoded.message == expected
    assert decoded.details == {expected: [expected, 1, None, True, 0.5]}
