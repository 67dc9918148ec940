from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_pydantic_agent_store", "0010_permissions"),
    ]

    operations = [
        migrations.AlterField(
            model_name="tooleffect",
            name="status",
            field=models.CharField(
                choices=[("started", "started"), ("completed", "completed"), ("failed", "failed")],
                max_length=16,
                verbose_name="status",
            ),
        ),
    ]
