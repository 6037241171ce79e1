"""Show of what the deck is made, and whether each part of it lives."""
