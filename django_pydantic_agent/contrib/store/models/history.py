"""The model messages that snapshots refer to."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class HistoryMessage(models.Model):
    """What one snapshot added to the message history, in the UTF-8 bytes of its JSON.

    A history is the first `base_size` bytes of the history of the base row, followed by `body`; `size` is its length.
    So a message is written once, and of a message that was changed at its end only the end is written again. `number`
    counts up for what a live run records and down for what is saved apart from it, so that the two never meet.

    `writer` is the primary key of the run that wrote the row. It is no foreign key, because runs that continue that run
    need the row after it is gone.
    """

    writer = models.BigIntegerField()
    number = models.BigIntegerField()
    piece = models.PositiveIntegerField(default=0)
    base_writer = models.BigIntegerField(null=True)
    base_number = models.BigIntegerField(null=True)
    base_size = models.BigIntegerField(default=0)
    size = models.BigIntegerField()
    body = models.BinaryField()

    class Meta:
        verbose_name = _("stretch of history")
        verbose_name_plural = _("stretches of history")
        constraints = (models.UniqueConstraint(fields=["writer", "number", "piece"], name="dpa_store_history_number"),)
        indexes = (models.Index(fields=["base_writer"], name="dpa_store_history_base"),)

    def __str__(self) -> str:
        return f"{self.writer}:{self.number}"
