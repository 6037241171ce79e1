"""Commands of the command line; `rolldeck.cli` is their root."""
