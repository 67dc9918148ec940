"""Where the pages of a mount are."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django_ag_ui.api.paths import encode_id


@dataclass(frozen=True, slots=True)
class Addresses:
    """The URLs of the pages below the path of a mount."""

    mount: str

    @property
    def picker(self) -> str:
        return f"{self.mount}ui/"

    @property
    def rows(self) -> str:
        return f"{self.mount}ui/rows/"

    def thread(self, thread_id: str) -> str:
        return f"{self.mount}ui/threads/{encode_id(thread_id)}/"

    def run(self, run_id: str) -> str:
        return f"{self.mount}ui/runs/{encode_id(run_id)}/"

    def fork(self, run_id: str) -> str:
        """Return the page of a run where the next message begins a new thread."""
        return f"{self.run(run_id)}?{urlencode({'fork': run_id})}#ag-ui-composer"
