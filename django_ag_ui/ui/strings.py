"""What the client modules say, in the language of the request."""

from django.utils.translation import gettext


def list_strings() -> dict[str, str]:
    """Return what the module of the list says; words in braces are filled in there."""
    return {
        "changed": gettext("{name}: {state}"),
        "copied": gettext("Copied."),
        "failed": gettext("The list could not be brought up to date."),
        "refused": gettext("You may not see this list any more. Load the page again."),
        "retry": gettext("Try again"),
    }


def conversation_strings() -> dict[str, str]:
    """Return what the modules of a conversation say."""
    return {}
