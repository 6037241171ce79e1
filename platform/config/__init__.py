"""The Django project. Celery is loaded with it so that jobs find their broker."""

from config.celery import app as celery_app

__all__ = ["celery_app"]
