"""Kinds of environments, selected by the part of a spec before its first colon."""
