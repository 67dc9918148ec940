from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_pydantic_agent_store", "0011_effect_status"),
    ]

    operations = [
        migrations.AlterField(
            model_name="threadmessage",
            name="role",
            field=models.CharField(
                choices=[
                    ("user", "user"),
                    ("assistant", "assistant"),
                    ("tool", "tool"),
                    ("reasoning", "reasoning"),
                    ("activity", "activity"),
                    ("system", "system"),
                    ("developer", "developer"),
                ],
                max_length=16,
                verbose_name="role",
            ),
        ),
        migrations.AlterField(
            model_name="tooleffect",
            name="reason",
            field=models.CharField(
                blank=True,
                choices=[("cancel", "cancel"), ("crash", "crash"), ("timeout", "timeout")],
                default="",
                max_length=16,
                verbose_name="reason",
            ),
        ),
    ]
