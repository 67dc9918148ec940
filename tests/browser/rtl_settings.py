"""The project of these tests in a language that is written from right to left."""

from tests.browser.settings import *  # noqa: F403

LANGUAGE_CODE = "he"
