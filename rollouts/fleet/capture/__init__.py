"""A proxy that captures what agent programs have a policy generate."""
