"""Date and time formats of the admin."""
