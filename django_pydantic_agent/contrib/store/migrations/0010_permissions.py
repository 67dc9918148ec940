from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("django_pydantic_agent_store", "0009_approvals"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="run",
            options={
                "permissions": (("cancel_run", "Can cancel run"), ("export_run", "Can export run")),
                "verbose_name": "run",
                "verbose_name_plural": "runs",
            },
        ),
        migrations.AlterModelOptions(
            name="thread",
            options={
                "permissions": (("export_thread", "Can export thread"),),
                "verbose_name": "thread",
                "verbose_name_plural": "threads",
            },
        ),
    ]
