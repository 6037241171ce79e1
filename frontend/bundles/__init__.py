"""A run as one file that a browser opens without a server."""
