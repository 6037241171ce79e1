"""Seeded workload, history and checker of a platform under faults.

Clients in processes of their own push, train and read, and record each call in a history. Faults
are injected meanwhile. A checker compares the history with what must hold for every run.
"""
