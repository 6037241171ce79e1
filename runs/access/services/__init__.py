"""Tokens, sessions, passwords and login links."""
