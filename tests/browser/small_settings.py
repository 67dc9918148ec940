"""The project whose pages these tests open, where a post must be small."""

from tests.browser.settings import *  # noqa: F403

DJANGO_AG_UI = {"MAX_BODY_BYTES": 7000}
