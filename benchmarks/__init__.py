"""Benchmarks of Rolldeck and its peers, measured in one run on one machine."""
