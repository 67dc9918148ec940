"""Serve the project of DJANGO_SETTINGS_MODULE over WSGI."""

from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()
