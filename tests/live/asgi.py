"""Serve the project over ASGI, with the lifespan of the server."""

from django.core.asgi import get_asgi_application

from django_ag_ui import with_lifespan

application = with_lifespan(get_asgi_application())
