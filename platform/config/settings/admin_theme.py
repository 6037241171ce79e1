"""Colours of the dashboard for the admin, and fixes of its theme."""

from typing import Any, Final

# The dashboard's greys and its accent (frontend/src/theme), as unfold's scales. Text in 500 and
# darker has a contrast of 4.5:1 on white, in 400 and lighter on 900; dark mode uses accent 500.
COLOURS: Final[dict[str, dict[str, str]]] = {
    "base": {
        "50": "#f5f6f8",
        "100": "#eef0f4",
        "200": "#dfe3ea",
        "300": "#c6ccd7",
        "400": "#9aa3b5",
        "500": "#5f697d",
        "600": "#4d5668",
        "700": "#394255",
        "800": "#252c39",
        "900": "#141922",
        "950": "#0e1219",
    },
    "primary": {
        "50": "#eef1ff",
        "100": "#dbe1ff",
        "200": "#c7d0ff",
        "300": "#b5c1ff",
        "400": "#a0afff",
        "500": "#8c9eff",
        "600": "#3b50c9",
        "700": "#3345a6",
        "800": "#2b3a85",
        "900": "#232f6b",
        "950": "#1a2350",
    },
}
THEME: Final[dict[str, Any]] = {
    "COLORS": COLOURS,
    "STYLES": ["/static/admin_theme/mends.css"],
    "SCRIPTS": ["/static/admin_theme/mends.js"],
}
