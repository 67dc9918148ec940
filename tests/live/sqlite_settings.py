"""A project on SQLite as Django sets it up by default: no WAL, deferred transactions, a timeout of five seconds."""

from tests.live.settings import *  # noqa: F403

del DATABASES["default"]["OPTIONS"]  # noqa: F405
