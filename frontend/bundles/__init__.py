"""A run as a single file that a browser opens without a server."""
