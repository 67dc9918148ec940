from django.apps import AppConfig


class DjangoAGUIConfig(AppConfig):
    name = "django_ag_ui"
    verbose_name = "AG-UI"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django_ag_ui import checks  # noqa: F401
        from django_pydantic_agent import checks as agent_checks  # noqa: F401
        from django_pydantic_agent.runs.drain import drain_on_sigterm
        from django_pydantic_agent.runs.mounts import register_lookup

        register_lookup("django_ag_ui.server.get_mount")
        drain_on_sigterm()
