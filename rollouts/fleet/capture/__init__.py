"""Proxy that captures the generations of agent programs."""
