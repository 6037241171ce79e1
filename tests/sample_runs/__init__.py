"""Sample runs for tests that need changing runs of every kind and state."""
