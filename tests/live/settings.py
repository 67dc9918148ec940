"""The project that the servers of these tests serve. LIVE_ENGINE and LIVE_AG_UI hold settings of theirs, as JSON."""

import json
import os

from tests.settings import *  # noqa: F403

ROOT_URLCONF = "tests.live.urls"
INSTALLED_APPS += ["tests.live"]  # noqa: F405
DJANGO_PYDANTIC_AGENT = {"SHUTDOWN_GRACE_SECONDS": 1} | json.loads(os.environ.get("LIVE_ENGINE", "{}"))
# No comments but where a test looks for them, so that a read that waits in vain ends with its time-out.
DJANGO_AG_UI = {"KEEP_ALIVE_SECONDS": 60} | json.loads(os.environ.get("LIVE_AG_UI", "{}"))
REST_FRAMEWORK = {"DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"]}
