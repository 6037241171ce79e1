"""Measure Rolldeck beside its peers, in one run on one machine."""
