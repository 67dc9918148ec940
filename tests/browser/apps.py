from django.apps import AppConfig


class BrowserConfig(AppConfig):
    name = "tests.browser"
    label = "browser"
