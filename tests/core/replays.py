"""A written-out run put into stores frame by frame, as its recorder would."""

import json
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.log.frames import is_terminal
from django_pydantic_agent.log.preamble import state_frame
from django_pydantic_agent.log.projection import Projection
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.runs.turn import turn_save
from django_pydantic_agent.stores.base import NewRun, RunStore, StoredRun
from django_pydantic_agent.stores.conversations import ConversationStore, TurnStart
from django_pydantic_agent.stores.memory import MemoryRunStore
from django_pydantic_agent.stores.memory_conversations import MemoryConversationStore
from django_pydantic_agent.stores.writes import Ending, RunWrite

OWNER = Owner("user:1")

_numbers = count(1)


@dataclass(frozen=True)
class Stores:
    runs: RunStore
    conversation: ConversationStore | None = None


def stores(kind: str) -> Stores:
    """Return empty stores: `kind` is `memory` or `database`, with ` thread` behind it where there are conversations."""
    is_memory = kind.startswith("memory")
    conversation = MemoryConversationStore() if is_memory else DefaultConversationStore()
    return Stores(MemoryRunStore() if is_memory else DatabaseRunStore(), conversation if "thread" in kind else None)


@dataclass
class Replay:
    """One run: created with `frames[0]`, then appended to. `messages` and `state` are those that were posted."""

    stores: Stores
    frames: list[bytes]
    messages: list[dict[str, Any]]
    state: Any = None
    parent: StoredRun | None = None
    seq: int = 1
    run: StoredRun = field(init=False)

    def __post_init__(self) -> None:
        conversation, thread_id = self.stores.conversation, "t1"
        turn = None
        if conversation is not None:
            view = conversation.view(owner=OWNER, thread_id=thread_id)
            revision = None if view is None else view.revision
            turn = TurnStart(owner=OWNER, thread_id=thread_id, revision=revision, messages=self.messages)
        new = NewRun(
            owner=OWNER,
            scope="",
            run_id=f"replay {next(_numbers)}",
            thread_id=thread_id,
            server="ag_ui",
            input=json.dumps({"messages": self.messages, "state": self.state}).encode(),
            digest="",
            protocol="1.0",
            message_ids=[],
            first_frame=lambda revision: self.frames[0],
            parent=self.parent,
            conversation=conversation,
            turn=turn,
            request={"thread": {"knows_newest": True}},
        )
        self.run = self.stores.runs.create(new, on_commit=lambda *_: None)
        base = self.messages if conversation is not None else []
        self.projection = Projection(base, state={} if self.state is None else self.state)

    def append(self, number: int = 1, *, save: bool = False) -> None:
        """Commit the next frames, with what they add to the thread where that is to be saved."""
        frames = self.frames[self.seq : self.seq + number]
        conversation = self.stores.conversation
        terminal = frames.pop() if is_terminal(frames[-1]) else None
        for frame in frames:
            self.projection.apply_frame(frame)
        write = RunWrite(
            key=self.run.key,
            epoch=1,
            first_seq=self.seq + 1,
            begins=self.seq == 1,
            frames=frames,
            conversation=conversation,
        )
        if terminal is not None:
            write.ending = Ending(
                status=RunStatus.FAILED if b"RUN_ERROR" in terminal else RunStatus.FINISHED,
                frame=lambda revision: terminal,
                folded=() if conversation is None else [state_frame(self.projection.state)],
            )
        if conversation is not None and (save or terminal is not None):
            write.turns = [turn_save(self.run.key, self.projection, write.last_seq)]
        assert self.stores.runs.commit([write]) == [None]
        self.seq = write.last_seq
        if terminal is not None:
            self.stores.runs.tidy(self.run.key)

    def finish(self) -> "Replay":
        self.append(len(self.frames) - self.seq)
        return self
