"""Make text of strangers harmless to read: what could deceive is named where it stands."""

import re
from typing import Final

_DECEIVING: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e01ef]"
)


def visible(text: str) -> str:
    """Return text with control and direction characters named where they stand: ``⟨U+202E⟩``.

    For pages of people, who must see what is there; tabs and line ends stay.
    """
    return _DECEIVING.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)
