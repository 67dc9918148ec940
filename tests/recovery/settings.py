"""The project whose processes these tests kill: leases so short that nobody has to wait for them."""

from tests.settings import *  # noqa: F403

ROOT_URLCONF = "tests.recovery.urls"
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "loggers": {"django_pydantic_agent": {"handlers": ["stderr"]}},
}
DJANGO_PYDANTIC_AGENT = {"BEAT_SECONDS": 0.25, "LEASE_SECONDS": 2.0, "POLL_SECONDS": 0.05}
