"""A project that does not wait long for a locked SQLite, whose file may grow to LIVE_MAX_PAGES."""

import os

from tests.live.settings import *  # noqa: F403

if "sqlite3" in DATABASES["default"]["ENGINE"]:  # noqa: F405
    options = DATABASES["default"]["OPTIONS"]  # noqa: F405
    options["timeout"] = 0.5
    if pages := os.environ.get("LIVE_MAX_PAGES"):
        options["init_command"] += f"; PRAGMA max_page_count={int(pages)}"
