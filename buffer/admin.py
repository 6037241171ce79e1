"""The admin of data: what came in, where it is, and what people decided about it."""
