from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_pydantic_agent_store", "0012_labels"),
    ]

    operations = [
        migrations.AddField(
            model_name="interrupt",
            name="reason",
            field=models.CharField(
                choices=[("tool_call", "may it be called?"), ("unknown_effect", "has it acted?")],
                default="tool_call",
                max_length=32,
                verbose_name="reason",
            ),
        ),
    ]
