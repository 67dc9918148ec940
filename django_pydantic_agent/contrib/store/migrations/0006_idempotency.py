from django.db import migrations, models

import django_pydantic_agent.contrib.store.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_pydantic_agent_store", "0005_log_retention"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="content_digest",
            field=models.CharField(
                blank=True, default="", max_length=64, verbose_name="digest of the body without its run id"
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="idempotency_digest",
            field=django_pydantic_agent.contrib.store.fields.DigestField(editable=False, max_length=64, null=True),
        ),
        migrations.AddField(
            model_name="run",
            name="idempotency_key",
            field=django_pydantic_agent.contrib.store.fields.OptionalTextField(
                blank=True, null=True, verbose_name="idempotency key"
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.UniqueConstraint(fields=("idempotency_digest",), name="dpa_store_run_idempotency"),
        ),
    ]
