"""What the agent of a mount can do."""

from rest_framework.request import Request
from rest_framework.response import Response

from django_ag_ui.api.views import AGUIView


class ToolsView(AGUIView):
    """The catalog of the agent's tools."""

    http_method_names = ("get", "head")

    def get(self, request: Request, **kwargs: str) -> Response:
        from django_pydantic_agent.agents.build import catalog

        return Response({"tools": catalog(self.server.agent_config.source)})
