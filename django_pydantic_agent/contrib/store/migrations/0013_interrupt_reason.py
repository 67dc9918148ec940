from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_pydantic_agent_store", "0012_labels"),
    ]

    operations = [
        migrations.AddField(
            model_name="interrupt",
            name="reason",
            field=models.CharField(default="tool_call", max_length=32, verbose_name="reason"),
        ),
    ]
