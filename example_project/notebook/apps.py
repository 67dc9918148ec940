from django.apps import AppConfig


class NotebookConfig(AppConfig):
    name = "example_project.notebook"
    default_auto_field = "django.db.models.BigAutoField"
