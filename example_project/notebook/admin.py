from django.contrib import admin

from example_project.notebook.models import Note


@admin.register(Note)
class NoteAdmin(admin.ModelAdmin):
    list_display = ("text", "user", "created_at")
    list_select_related = ("user",)
