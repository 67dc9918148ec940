from django.apps import AppConfig, apps
from django.utils.translation import gettext_lazy as _


class StoreConfig(AppConfig):
    name = "django_pydantic_agent.contrib.store"
    label = "django_pydantic_agent_store"
    verbose_name = _("Agent runs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.contrib.auth import get_user_model
        from django.contrib.auth.signals import user_logged_in
        from django.db.models.signals import post_delete, post_save

        from django_pydantic_agent.contrib.store import checks  # noqa: F401
        from django_pydantic_agent.contrib.store.claiming import claim_at_login
        from django_pydantic_agent.contrib.store.erasure import erase_at_deletion, set_aside_at_creation

        user_logged_in.connect(claim_at_login, dispatch_uid="django_pydantic_agent_store.claim_at_login")
        user_model = get_user_model()
        # Proxies and children of the model are senders of their own.
        for model in apps.get_models():
            if issubclass(model, user_model):
                post_delete.connect(erase_at_deletion, sender=model)
                post_save.connect(set_aside_at_creation, sender=model)
