import django.db.models.deletion
from django.db import migrations, models

import django_pydantic_agent.contrib.store.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_pydantic_agent_store", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Thread",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("owner", models.TextField(verbose_name="owner")),
                ("scope", models.TextField(blank=True, default="", verbose_name="scope")),
                ("thread_id", models.TextField(verbose_name="thread id")),
                ("owner_digest", django_pydantic_agent.contrib.store.fields.DigestField(editable=False, max_length=64)),
                (
                    "partition_digest",
                    django_pydantic_agent.contrib.store.fields.DigestField(editable=False, max_length=64),
                ),
                (
                    "thread_digest",
                    django_pydantic_agent.contrib.store.fields.DigestField(editable=False, max_length=64),
                ),
                ("title", models.TextField(blank=True, default="", verbose_name="title")),
                ("is_titled_by_person", models.BooleanField(default=False, verbose_name="titled by a person")),
                (
                    "preview",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="preview"
                    ),
                ),
                ("is_archived", models.BooleanField(default=False, verbose_name="archived")),
                ("revision", models.BigIntegerField(default=0, verbose_name="revision")),
                ("turns", models.PositiveIntegerField(default=0, verbose_name="turns")),
                ("next_turn", models.PositiveIntegerField(default=1)),
                ("state", models.BinaryField(default=b"")),
                ("state_run", models.BigIntegerField(null=True)),
                ("state_seq", models.BigIntegerField(default=0)),
                ("waiting_run", models.BigIntegerField(null=True)),
                ("open_calls", models.JSONField(default=list, verbose_name="open calls")),
                ("open_interrupts", models.JSONField(default=list, verbose_name="open interrupts")),
                ("created_at", django_pydantic_agent.contrib.store.fields.InstantField(verbose_name="started")),
                ("updated_at", django_pydantic_agent.contrib.store.fields.InstantField(verbose_name="changed")),
            ],
            options={
                "verbose_name": "thread",
                "verbose_name_plural": "threads",
            },
        ),
        migrations.CreateModel(
            name="ThreadMessage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("turn", models.PositiveIntegerField(verbose_name="turn")),
                ("run", models.BigIntegerField(verbose_name="run")),
                ("place", models.PositiveIntegerField(verbose_name="place")),
                ("piece", models.PositiveIntegerField(default=0)),
                ("pieces", models.PositiveIntegerField(default=1)),
                ("message_id", models.TextField(verbose_name="message id")),
                ("role", models.CharField(max_length=16, verbose_name="role")),
                ("content_digest", models.CharField(blank=True, default="", editable=False, max_length=64)),
                ("through_seq", models.BigIntegerField()),
                ("superseded_by", models.BigIntegerField(null=True, verbose_name="superseded by")),
                ("body", models.BinaryField()),
            ],
            options={
                "verbose_name": "thread message",
                "verbose_name_plural": "thread messages",
            },
        ),
        migrations.AddField(
            model_name="run",
            name="boundary_seq",
            field=models.BigIntegerField(default=0, verbose_name="newest boundary"),
        ),
        migrations.AddField(
            model_name="run",
            name="history_number",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="run",
            name="history_size",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="run",
            name="history_writer",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="run",
            name="seed_number",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="run",
            name="seed_size",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="run",
            name="seed_writer",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="run",
            name="superseded_by",
            field=models.BigIntegerField(null=True, verbose_name="superseded by"),
        ),
        migrations.AddField(
            model_name="run",
            name="turn",
            field=models.PositiveIntegerField(null=True, verbose_name="turn"),
        ),
        migrations.AddIndex(
            model_name="historymessage",
            index=models.Index(fields=["base_writer"], name="dpa_store_history_base"),
        ),
        migrations.AddIndex(
            model_name="snapshot",
            index=models.Index(fields=["history_writer"], name="dpa_store_snapshot_history"),
        ),
        migrations.AddIndex(
            model_name="thread",
            index=models.Index(
                fields=["partition_digest", "is_archived", "updated_at", "id"], name="dpa_store_thread_list"
            ),
        ),
        migrations.AddIndex(
            model_name="thread",
            index=models.Index(fields=["owner_digest", "id"], name="dpa_store_thread_owner"),
        ),
        migrations.AddConstraint(
            model_name="thread",
            constraint=models.UniqueConstraint(fields=("thread_digest",), name="dpa_store_thread_digest"),
        ),
        migrations.AddField(
            model_name="run",
            name="in_thread",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="runs",
                to="django_pydantic_agent_store.thread",
                verbose_name="thread",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["in_thread", "turn", "id"], name="dpa_store_run_turn"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["seed_writer"], name="dpa_store_run_seed"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["history_writer"], name="dpa_store_run_history"),
        ),
        migrations.AddField(
            model_name="threadmessage",
            name="thread",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="messages",
                to="django_pydantic_agent_store.thread",
                verbose_name="thread",
            ),
        ),
        migrations.AddConstraint(
            model_name="threadmessage",
            constraint=models.UniqueConstraint(
                fields=("thread", "turn", "run", "place", "piece"), name="dpa_store_message_place"
            ),
        ),
    ]
