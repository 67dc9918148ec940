"""A thread as the viewers of one process see it: which of its runs was accepted last."""

from django_pydantic_agent.runs.news import News
from django_pydantic_agent.stores.conversations import ConversationStore, ThreadName


class LiveThread(News):
    """The key of the newest run of a thread, as the watcher last found it in the store."""

    def __init__(self, store: ConversationStore, key: ThreadName, *, newest: int) -> None:
        super().__init__()
        self.store = store
        self.key = key
        self.newest = newest

    @property
    def ended(self) -> bool:
        """Whether the thread was deleted."""
        return self._is_gone

    def learn(self, newest: int | None) -> None:
        """Learn which run is the newest, None where the thread is gone."""
        if newest is None:
            self.vanish()
        elif newest > self.newest:
            with self._changed:
                self.newest = newest
                self._announce()

    def _has_news(self, after: int) -> bool:
        return self.newest > after or self.ended
