"""Serve the project of DJANGO_SETTINGS_MODULE over ASGI."""

from django.core.asgi import get_asgi_application

application = get_asgi_application()
