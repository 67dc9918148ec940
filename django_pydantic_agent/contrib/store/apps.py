from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class StoreConfig(AppConfig):
    name = "django_pydantic_agent.contrib.store"
    label = "django_pydantic_agent_store"
    verbose_name = _("Agent runs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.contrib.auth.signals import user_logged_in

        from django_pydantic_agent.contrib.store import checks  # noqa: F401
        from django_pydantic_agent.contrib.store.claiming import claim_at_login

        user_logged_in.connect(claim_at_login, dispatch_uid="django_pydantic_agent_store.claim_at_login")
