"""The test project with the mounts and views that are measured."""

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

ROOT_URLCONF = "benchmarks.urls"
ASGI_APPLICATION = "benchmarks.asgi.application"
INSTALLED_APPS = [*INSTALLED_APPS, "benchmarks"]
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
}
