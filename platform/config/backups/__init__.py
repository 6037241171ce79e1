"""Keep a whole deck in a folder, and make a deck of such a folder again."""
