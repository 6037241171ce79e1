"""The rows of the table, in its order."""
