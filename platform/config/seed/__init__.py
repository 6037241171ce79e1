"""Sample runs for a deployment, written by `manage.py seed`."""
