from django.db import models


class Row(models.Model):
    """What the comparison view writes."""

    text = models.TextField()

    def __str__(self) -> str:
        return self.text
