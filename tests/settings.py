"""The test project's settings, on the database that TEST_DATABASE names: sqlite (default), postgres or mariadb."""

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent

# A server that a test starts in a process of its own gets the name of the test's database here.
DATABASE_NAME = os.environ.get("TEST_DATABASE_NAME", "django_ag_ui_test_default")


def _sqlite() -> dict[str, object]:
    path = DATABASE_NAME if os.path.isabs(DATABASE_NAME) else str(BASE_DIR / f"{DATABASE_NAME}.sqlite3")
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
        },
        "TEST": {"NAME": path},
    }


def _postgres() -> dict[str, object]:
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": DATABASE_NAME,
        "HOST": os.environ.get("PGHOST", "127.0.0.1"),
        "PORT": os.environ.get("PGPORT", ""),
        "USER": os.environ.get("PGUSER", "root"),
        "PASSWORD": os.environ.get("PGPASSWORD", ""),
        "TEST": {"NAME": DATABASE_NAME},
    }


def _mariadb() -> dict[str, object]:
    return {
        "ENGINE": "django.db.backends.mysql",
        "NAME": DATABASE_NAME,
        "HOST": os.environ.get("MYSQL_HOST", "127.0.0.1"),
        "PORT": os.environ.get("MYSQL_TCP_PORT", ""),
        "USER": os.environ.get("MYSQL_USER", "root"),
        "PASSWORD": os.environ.get("MYSQL_PWD", ""),
        "OPTIONS": {"charset": "utf8mb4"},
        "TEST": {"NAME": DATABASE_NAME, "CHARSET": "utf8mb4"},
    }


DATABASES = {
    "default": {"sqlite": _sqlite, "postgres": _postgres, "mariadb": _mariadb}[
        os.environ.get("TEST_DATABASE", "sqlite")
    ]()
}

SECRET_KEY = "not a secret: tests only"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "tests.urls"
ASGI_APPLICATION = "tests.asgi.application"
WSGI_APPLICATION = "tests.wsgi.application"
USE_TZ = True
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

INSTALLED_APPS = [
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
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
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
