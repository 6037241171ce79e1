"""Back up a whole deployment into a folder, and restore it from there."""
