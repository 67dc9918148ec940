"""The project that the servers of these tests serve. LIVE_ENGINE and LIVE_AG_UI hold settings of theirs, as JSON."""

import json
import os

from tests.settings import *  # noqa: F403

ROOT_URLCONF = "tests.live.urls"
INSTALLED_APPS += ["tests.live"]  # noqa: F405
DJANGO_PYDANTIC_AGENT = {"SHUTDOWN_GRACE_SECONDS": 1} | json.loads(os.environ.get("LIVE_ENGINE", "{}"))
DJANGO_AG_UI = json.loads(os.environ.get("LIVE_AG_UI", "{}"))
