"""The example project: two agents, offline unless AGENT_MODEL names a model, on SQLite.

Read from the environment: AGENT_MODEL (as `openai:gpt-5.2`), EXAMPLE_DATABASE (a file), EXAMPLE_DEBUG (0 or 1),
EXAMPLE_LANGUAGE (as `he`), EXAMPLE_SLOW_SECONDS (how long the slow tool takes).
"""

import os
from pathlib import Path

import django

BASE_DIR = Path(__file__).resolve().parent.parent

DEBUG = os.environ.get("EXAMPLE_DEBUG", "1") != "0"
SECRET_KEY = "an example, served on this machine only"  # noqa: S105
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]

INSTALLED_APPS = [
    # Before staticfiles, so that runserver is daphne's and speaks ASGI.
    "daphne",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "rest_framework",
    "django_ag_ui",
    "django_pydantic_agent.contrib.store",
    "example_project.notebook",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

# Django's own spelling; before Django 6.0 the example's middleware reads it.
SECURE_CSP = {
    "default-src": ["'none'"],
    "script-src": ["'self'"],
    "style-src": ["'self'"],
    "img-src": ["'self'", "data:"],
    "font-src": ["'self'"],
    "connect-src": ["'self'"],
    "form-action": ["'self'"],
    "base-uri": ["'none'"],
    "frame-ancestors": ["'none'"],
}
if django.VERSION >= (6, 0):
    MIDDLEWARE.insert(1, "django.middleware.csp.ContentSecurityPolicyMiddleware")
else:
    MIDDLEWARE.insert(1, "example_project.csp.ContentSecurityPolicyMiddleware")

ROOT_URLCONF = "example_project.urls"
ASGI_APPLICATION = "example_project.asgi.application"
WSGI_APPLICATION = "example_project.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "example_project" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("EXAMPLE_DATABASE", BASE_DIR / "example.sqlite3"),
        # Readers beside the one writer, and writers that wait for their turn instead of failing.
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
        },
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = os.environ.get("EXAMPLE_LANGUAGE", "en-us")
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "page"

AGENT_MODEL = os.environ.get("AGENT_MODEL", "")
SLOW_SECONDS = float(os.environ.get("EXAMPLE_SLOW_SECONDS", "5"))
