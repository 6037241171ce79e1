"""Fill a deck with runs to look at: what `manage.py seed` writes."""
