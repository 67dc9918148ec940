"""The project whose pages these tests open: under a strict content security policy, with leases nobody waits for."""

from tests.settings import *  # noqa: F403

ROOT_URLCONF = "tests.browser.urls"
MIDDLEWARE += ["example_project.csp.ContentSecurityPolicyMiddleware"]  # noqa: F405
SECURE_CSP = {"default-src": ["'self'"]}
DJANGO_PYDANTIC_AGENT = {
    "BEAT_SECONDS": 0.25,
    "LEASE_SECONDS": 2.0,
    "POLL_SECONDS": 0.05,
    "SHUTDOWN_GRACE_SECONDS": 1,
}
