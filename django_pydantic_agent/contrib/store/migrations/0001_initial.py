import django.db.models.deletion
from django.db import migrations, models

import django_pydantic_agent.contrib.store.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="HistoryMessage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("writer", models.BigIntegerField()),
                ("number", models.BigIntegerField()),
                ("piece", models.PositiveIntegerField(default=0)),
                ("base_writer", models.BigIntegerField(null=True)),
                ("base_number", models.BigIntegerField(null=True)),
                ("base_size", models.BigIntegerField(default=0)),
                ("size", models.BigIntegerField()),
                ("body", models.BinaryField()),
            ],
            options={
                "verbose_name": "stretch of history",
                "verbose_name_plural": "stretches of history",
                "constraints": [
                    models.UniqueConstraint(fields=("writer", "number", "piece"), name="dpa_store_history_number")
                ],
            },
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("owner", models.TextField(verbose_name="owner")),
                ("scope", models.TextField(blank=True, default="", verbose_name="scope")),
                ("run_id", models.TextField(verbose_name="run id")),
                ("thread_id", models.TextField(blank=True, default="", verbose_name="thread id")),
                ("owner_digest", django_pydantic_agent.contrib.store.fields.DigestField(editable=False, max_length=64)),
                (
                    "partition_digest",
                    django_pydantic_agent.contrib.store.fields.DigestField(editable=False, max_length=64),
                ),
                ("run_digest", django_pydantic_agent.contrib.store.fields.DigestField(editable=False, max_length=64)),
                (
                    "thread_digest",
                    django_pydantic_agent.contrib.store.fields.DigestField(editable=False, max_length=64),
                ),
                (
                    "parent_run_id",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="parent run id"
                    ),
                ),
                (
                    "parent_digest",
                    django_pydantic_agent.contrib.store.fields.DigestField(editable=False, max_length=64, null=True),
                ),
                ("server", models.TextField(blank=True, default="", verbose_name="server")),
                (
                    "status",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("interrupted", "Interrupted"),
                            ("finished", "Finished"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                            ("orphaned", "Orphaned"),
                        ],
                        default="",
                        max_length=16,
                        verbose_name="status",
                    ),
                ),
                ("is_ledger_only", models.BooleanField(default=False, verbose_name="ledger only")),
                ("input", models.BinaryField(default=b"", verbose_name="input")),
                (
                    "body_digest",
                    models.CharField(blank=True, default="", max_length=64, verbose_name="digest of the body"),
                ),
                ("protocol", models.CharField(blank=True, default="", max_length=32, verbose_name="protocol")),
                ("message_ids", models.JSONField(default=list, verbose_name="accepted message ids")),
                ("output_message_ids", models.JSONField(default=list, verbose_name="written message ids")),
                ("last_seq", models.BigIntegerField(default=0, verbose_name="last event")),
                ("ledger_seq", models.BigIntegerField(default=0, verbose_name="last ledger change")),
                ("attempt", models.PositiveIntegerField(default=1, verbose_name="attempt")),
                ("epoch", models.PositiveIntegerField(default=1, verbose_name="epoch")),
                ("error", models.JSONField(null=True, verbose_name="error")),
                ("interrupts", models.JSONField(default=list, verbose_name="interrupts")),
                ("usage", models.JSONField(null=True, verbose_name="usage")),
                ("timing", models.JSONField(null=True, verbose_name="timing")),
                ("created_at", django_pydantic_agent.contrib.store.fields.InstantField(verbose_name="started")),
                (
                    "finished_at",
                    django_pydantic_agent.contrib.store.fields.InstantField(null=True, verbose_name="finished"),
                ),
                (
                    "registration_id",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="registration id"
                    ),
                ),
                (
                    "registered_at",
                    django_pydantic_agent.contrib.store.fields.InstantField(null=True, verbose_name="registered"),
                ),
                (
                    "conversation_id",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="conversation id"
                    ),
                ),
                (
                    "conversation_digest",
                    django_pydantic_agent.contrib.store.fields.DigestField(editable=False, max_length=64, null=True),
                ),
                (
                    "agent_name",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="agent"
                    ),
                ),
                ("metadata", models.JSONField(default=dict, verbose_name="metadata")),
                (
                    "preview",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="preview"
                    ),
                ),
                ("is_continuable", models.BooleanField(default=False, verbose_name="continuable")),
                (
                    "parent",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="children",
                        to="django_pydantic_agent_store.run",
                        verbose_name="parent",
                    ),
                ),
            ],
            options={
                "verbose_name": "run",
                "verbose_name_plural": "runs",
            },
        ),
        migrations.CreateModel(
            name="RunFrames",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("first_seq", models.BigIntegerField()),
                ("last_seq", models.BigIntegerField()),
                ("piece", models.PositiveIntegerField(default=0)),
                ("is_compressed", models.BooleanField(default=False)),
                ("size", models.BigIntegerField()),
                ("data", models.BinaryField()),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="frames",
                        to="django_pydantic_agent_store.run",
                    ),
                ),
            ],
            options={
                "verbose_name": "stretch of the log",
                "verbose_name_plural": "stretches of the log",
            },
        ),
        migrations.CreateModel(
            name="Snapshot",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "state",
                    models.CharField(
                        choices=[("complete", "complete"), ("interrupted", "interrupted")],
                        max_length=16,
                        verbose_name="state",
                    ),
                ),
                ("step_index", models.IntegerField(verbose_name="step")),
                ("timestamp", django_pydantic_agent.contrib.store.fields.InstantField(verbose_name="time")),
                (
                    "conversation_id",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="conversation id"
                    ),
                ),
                (
                    "parent_run_id",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="parent run id"
                    ),
                ),
                (
                    "agent_name",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="agent"
                    ),
                ),
                ("history_writer", models.BigIntegerField()),
                ("history_number", models.BigIntegerField()),
                ("history_size", models.BigIntegerField(verbose_name="size in bytes")),
                ("message_count", models.PositiveIntegerField(verbose_name="messages")),
                (
                    "idempotency_key",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="idempotency key"
                    ),
                ),
                (
                    "key_digest",
                    django_pydantic_agent.contrib.store.fields.DigestField(editable=False, max_length=64, null=True),
                ),
                ("is_pruned", models.BooleanField(default=False, verbose_name="pruned")),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="snapshots",
                        to="django_pydantic_agent_store.run",
                        verbose_name="run",
                    ),
                ),
            ],
            options={
                "verbose_name": "snapshot",
                "verbose_name_plural": "snapshots",
            },
        ),
        migrations.CreateModel(
            name="StepEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=64, verbose_name="kind")),
                ("step_index", models.IntegerField(verbose_name="step")),
                ("timestamp", django_pydantic_agent.contrib.store.fields.InstantField(verbose_name="time")),
                (
                    "conversation_id",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="conversation id"
                    ),
                ),
                (
                    "parent_run_id",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="parent run id"
                    ),
                ),
                (
                    "agent_name",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="agent"
                    ),
                ),
                (
                    "tool_call_id",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="tool call id"
                    ),
                ),
                (
                    "tool_name",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="tool"
                    ),
                ),
                (
                    "error",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="error"
                    ),
                ),
                ("metadata", models.JSONField(default=dict, verbose_name="metadata")),
                (
                    "idempotency_key",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="idempotency key"
                    ),
                ),
                (
                    "key_digest",
                    django_pydantic_agent.contrib.store.fields.DigestField(editable=False, max_length=64, null=True),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="step_events",
                        to="django_pydantic_agent_store.run",
                        verbose_name="run",
                    ),
                ),
            ],
            options={
                "verbose_name": "step event",
                "verbose_name_plural": "step events",
            },
        ),
        migrations.CreateModel(
            name="ToolEffect",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("tool_call_id", models.TextField(verbose_name="tool call id")),
                ("call_digest", django_pydantic_agent.contrib.store.fields.DigestField(editable=False, max_length=64)),
                ("tool_name", models.TextField(verbose_name="tool")),
                (
                    "status",
                    models.CharField(
                        choices=[("started", "unresolved"), ("completed", "completed"), ("failed", "failed")],
                        max_length=16,
                        verbose_name="status",
                    ),
                ),
                ("started_at", django_pydantic_agent.contrib.store.fields.InstantField(verbose_name="started")),
                ("ended_at", django_pydantic_agent.contrib.store.fields.InstantField(null=True, verbose_name="ended")),
                (
                    "idempotency_key",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="idempotency key"
                    ),
                ),
                (
                    "effect_summary",
                    django_pydantic_agent.contrib.store.fields.OptionalTextField(
                        blank=True, null=True, verbose_name="summary"
                    ),
                ),
                ("reason", models.CharField(blank=True, default="", max_length=16, verbose_name="reason")),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tool_effects",
                        to="django_pydantic_agent_store.run",
                        verbose_name="run",
                    ),
                ),
            ],
            options={
                "verbose_name": "tool effect",
                "verbose_name_plural": "tool effects",
            },
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["partition_digest", "is_ledger_only", "id"], name="dpa_store_run_partition"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["thread_digest", "id"], name="dpa_store_run_thread"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["conversation_digest"], name="dpa_store_run_conversation"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["parent_digest"], name="dpa_store_run_parent_digest"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["parent"], name="dpa_store_run_parent"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["owner_digest", "id"], name="dpa_store_run_owner"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["status", "id"], name="dpa_store_run_status"),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.UniqueConstraint(fields=("run_digest",), name="dpa_store_run_digest"),
        ),
        migrations.AddConstraint(
            model_name="runframes",
            constraint=models.UniqueConstraint(fields=("run", "last_seq", "piece"), name="dpa_store_frames_seq"),
        ),
        migrations.AddIndex(
            model_name="snapshot",
            index=models.Index(fields=["run", "id"], name="dpa_store_snapshot_run"),
        ),
        migrations.AddConstraint(
            model_name="snapshot",
            constraint=models.UniqueConstraint(fields=("run", "key_digest"), name="dpa_store_snapshot_key"),
        ),
        migrations.AddIndex(
            model_name="stepevent",
            index=models.Index(fields=["run", "id"], name="dpa_store_event_run"),
        ),
        migrations.AddConstraint(
            model_name="stepevent",
            constraint=models.UniqueConstraint(fields=("run", "key_digest"), name="dpa_store_event_key"),
        ),
        migrations.AddIndex(
            model_name="tooleffect",
            index=models.Index(fields=["run", "status"], name="dpa_store_effect_run"),
        ),
        migrations.AddIndex(
            model_name="tooleffect",
            index=models.Index(fields=["status", "id"], name="dpa_store_effect_status"),
        ),
        migrations.AddConstraint(
            model_name="tooleffect",
            constraint=models.UniqueConstraint(fields=("run", "call_digest"), name="dpa_store_effect_call"),
        ),
    ]
