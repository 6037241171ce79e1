"""Mathematics of trainers, with numpy alone.

`advantages` of groups, `returns` (GAE and V-trace) of fragments, `chunks` (consecutive fragments
joined into longer sequences), and `popart` (normalized value targets).
"""
