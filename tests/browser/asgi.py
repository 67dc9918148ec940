"""Serve the project and its static files over ASGI."""

from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application

from django_ag_ui import with_lifespan

application = with_lifespan(ASGIStaticFilesHandler(get_asgi_application()))
