"""What a conversation store has to do, as tests for any of them.

Inherit `ConversationStoreConformance` next to a test case and say how a store is made:

    class TestMyConversationStore(ConversationStoreConformance, TestCase):
        def make_store(self):
            return MyConversationStore()

A store that shares tables with the runs also overrides `make_run`, `end_run` and `transaction`.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

from django_pydantic_agent.exceptions import InvalidInput, ThreadChanged, ThreadNotFound
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.conversations import (
    ConversationStore,
    StoredThread,
    ThreadQuery,
    TurnSave,
    TurnStart,
)
from django_pydantic_agent.stores.writes import Ending
from django_pydantic_agent.threads.posture import ThreadOutline, TurnState

ADA, BOB = Owner("user:ada"), Owner("user:bob")

AWKWARD_IDS = (
    "thread",
    "Thread",
    "THREAD",
    "thread ",
    "thr\u00e9ad",
    "thre\N{COMBINING ACUTE ACCENT}ad",
    "\N{GRINNING FACE}",
    "a/b:c",
    "1:a",
    "x" * 1024,
)
"""Ids that a database might take for each other, or have no room for."""

JsonObject = dict[str, Any]

_keys = count(1)


def said(id_: str, content: Any = None) -> JsonObject:
    """Return a user message."""
    return {"id": id_, "role": "user", "content": f"content of {id_}" if content is None else content}


def answer(id_: str, content: str = "", *calls: str) -> JsonObject:
    """Return an assistant message with tool calls of these ids."""
    message: JsonObject = {"id": id_, "role": "assistant", "content": content or f"content of {id_}"}
    if calls:
        function = {"name": "ask", "arguments": "{}"}
        message["toolCalls"] = [{"id": call, "type": "function", "function": function} for call in calls]
    return message


def result(id_: str, call: str) -> JsonObject:
    """Return the result of a tool call."""
    return {"id": id_, "role": "tool", "toolCallId": call, "content": f"content of {id_}"}


class ConversationStoreConformance:
    """Every promise of `ConversationStore` that the engine and the mount rely on."""

    def make_store(self) -> ConversationStore:
        """Return a store that holds nothing yet."""
        raise NotImplementedError

    def make_run(self, start: TurnStart, run_id: str) -> int:
        """Create the run that a turn is accepted for, and return its key; later keys are higher."""
        return next(_keys)

    def end_run(self, store: ConversationStore, saved: TurnSave, ending: Ending) -> int:
        """End a run together with its part of the thread, and return the revision."""
        return store.end(saved, ending)

    def transaction(self) -> AbstractContextManager[Any]:
        """Return what surrounds each write that the engine makes."""
        return nullcontext()

    def accept(
        self,
        store: ConversationStore,
        *messages: JsonObject,
        owner: Owner = ADA,
        thread_id: str = "thread",
        run_id: str = "",
        **fields: Any,
    ) -> int:
        """Accept a turn at the revision that the thread has, and return the key of its run."""
        view = store.view(owner=owner, thread_id=thread_id)
        revision = None if view is None else view.revision
        start = TurnStart(owner=owner, thread_id=thread_id, messages=messages, **{"revision": revision, **fields})
        run_id = run_id or f"run {next(_keys)}"
        with self.transaction():
            run = self.make_run(start, run_id)
            store.accept(start, run=run, run_id=run_id)
        return run

    def save(
        self, store: ConversationStore, run: int, *messages: tuple[int, JsonObject], seq: int, **fields: Any
    ) -> None:
        with self.transaction():
            store.save(TurnSave(run=run, through_seq=seq, size=0, messages=messages, **fields))

    def end(
        self,
        store: ConversationStore,
        run: int,
        *messages: tuple[int, JsonObject],
        status: RunStatus = RunStatus.FINISHED,
        seq: int = 9,
        state: Any = None,
        **fields: Any,
    ) -> int:
        """End a run and return the thread's revision."""
        saved = TurnSave(run=run, through_seq=seq, size=0, messages=messages, state=state, has_state=state is not None)
        with self.transaction():
            return self.end_run(store, saved, Ending(status=status, frame=lambda revision: b"end", **fields))

    def turn(self, store: ConversationStore, *ids: str, **fields: Any) -> int:
        """Have a turn: a user message, and the answers in the order given; return the key of its run."""
        run = self.accept(store, said(ids[0]), **fields)
        self.end(store, run, *((place, answer(id_)) for place, id_ in enumerate(ids[1:], start=1)))
        return run

    def viewed(self, store: ConversationStore, thread_id: str = "thread") -> ThreadOutline:
        view = store.view(owner=ADA, thread_id=thread_id)
        assert view is not None
        return view

    def current(self, store: ConversationStore, thread_id: str = "thread") -> list[str]:
        """Return the ids of the current branch, as all ways to look at it agree on."""
        ids = ids_of(store.read(owner=ADA, thread_id=thread_id).messages)
        assert [message.id for message in self.viewed(store, thread_id).messages] == ids
        return ids

    def test_an_unknown_thread_is_told_apart_from_an_empty_one(self) -> None:
        store = self.make_store()
        assert store.view(owner=ADA, thread_id="thread") is None
        assert store.page(owner=ADA, query=ThreadQuery()).threads == []
        self.refuses_unknown(store, ADA, "thread")

    def test_an_accepted_turn_is_there_at_once(self) -> None:
        store = self.make_store()
        before = datetime.now(UTC)
        run = self.accept(store, said("u1", "Hello\n  there"), run_id="run")
        thread = store.read(owner=ADA, thread_id="thread")
        assert thread.messages == [said("u1", "Hello\n  there")]
        assert (thread.thread_id, thread.title, thread.revision, thread.archived) == ("thread", "", 1, False)
        assert thread.state is None
        assert thread.active_run is not None
        assert (thread.active_run.key, thread.active_run.run_id, thread.active_run.applied_seq) == (run, "run", 1)
        [row] = store.page(owner=ADA, query=ThreadQuery()).threads
        assert (row.thread_id, row.preview, row.turns, row.active_run) == ("thread", "Hello there", 1, "run")
        assert before <= row.updated_at <= datetime.now(UTC)

    def test_a_list_names_the_current_run_and_keeps_to_its_status(self) -> None:
        store = self.make_store()
        ended = self.turn(store, "u1", "a1", thread_id="ended")
        self.turn(store, "u2", "a2", thread_id="going")
        going = self.accept(store, said("u3"), thread_id="going")
        self.accept(store, said("u4"), thread_id="going")
        rows = store.page(owner=ADA, query=ThreadQuery()).threads
        assert {row.thread_id: row.current_run for row in rows} == {"going": going, "ended": ended}

        def at(status: RunStatus) -> list[str]:
            return [row.thread_id for row in store.page(owner=ADA, query=ThreadQuery(status=status)).threads]

        assert at(RunStatus.QUEUED) == ["going"]
        assert at(RunStatus.FINISHED) == ["ended"]
        assert at(RunStatus.FAILED) == []

    def test_the_view_of_a_turn_that_is_going(self) -> None:
        store = self.make_store()
        self.turn(store, "u1", "a1")
        run = self.accept(store, said("u2"))
        self.save(store, run, (1, answer("a2")), seq=5)
        view = self.viewed(store)
        assert [(message.id, message.role, message.turn) for message in view.messages] == [
            ("u1", "user", 0),
            ("a1", "assistant", 0),
            ("u2", "user", 1),
            ("a2", "assistant", 1),
        ]
        assert [turn.state for turn in view.turns] == [TurnState.ANSWERED, TurnState.LIVE]
        assert (view.revision, view.active, view.turns[1].run) == (3, run, run)
        assert [bool(message.digest) for message in view.messages] == [True, False, True, False]
        assert view.messages[0].digest != view.messages[2].digest

    def test_the_revision_rises_at_acceptance_and_at_the_end_only(self) -> None:
        store = self.make_store()
        run = self.accept(store, said("u1"))
        assert self.viewed(store).revision == 1
        self.save(store, run, (1, answer("a1")), seq=5, state={"n": 1}, has_state=True)
        store.rename(owner=ADA, thread_id="thread", title="Title")
        store.archive(owner=ADA, thread_id="thread", archived=True)
        assert self.viewed(store).revision == 1
        assert self.end(store, run) == 2
        assert self.viewed(store).revision == 2

    def test_what_is_saved_replaces_what_stood_in_its_place(self) -> None:
        store = self.make_store()
        run = self.accept(store, said("u1"))
        self.save(store, run, (1, answer("a1", "Hel")), seq=4)
        self.save(store, run, (1, answer("a1", "Hello", "c1", "c2")), (2, answer("a2")), seq=8)
        self.save(store, run, (2, result("t1", "c1")), (3, answer("a2", "moved")), seq=9)
        thread = store.read(owner=ADA, thread_id="thread")
        assert thread.messages == [
            said("u1"),
            answer("a1", "Hello", "c1", "c2"),
            result("t1", "c1"),
            answer("a2", "moved"),
        ]
        assert thread.active_run is not None
        assert thread.active_run.applied_seq == 9
        self.end(store, run)
        assert store.read(owner=ADA, thread_id="thread").active_run is None

    def test_the_applied_seq_is_that_of_messages_and_state(self) -> None:
        store = self.make_store()
        run = self.accept(store, said("u1"))
        self.save(store, run, (1, answer("a1")), seq=4)
        self.save(store, run, seq=7, state={"n": 1}, has_state=True)
        thread = store.read(owner=ADA, thread_id="thread")
        assert thread.active_run is not None
        assert (thread.active_run.applied_seq, thread.state) == (7, {"n": 1})
        self.end(store, run)
        self.accept(store, said("u2"))
        thread = store.read(owner=ADA, thread_id="thread")
        assert thread.active_run is not None
        assert (thread.active_run.applied_seq, thread.state) == (1, {"n": 1})

    def test_a_message_comes_back_field_by_field(self) -> None:
        store = self.make_store()
        message = answer("a1", "caf\u00e9 \N{GRINNING FACE} \u2028", "c1") | {
            "metadata": {"list": [1, 2.5, None, {"deep": [True]}], "big": 2**60},
            "encryptedValue": "e",
        }
        picture = {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}}
        question = said("u1", [{"type": "text", "text": "Look"}, picture])
        run = self.accept(store, question)
        self.end(store, run, (1, message))
        assert store.read(owner=ADA, thread_id="thread").messages == [question, message]
        [row] = store.page(owner=ADA, query=ThreadQuery()).threads
        assert row.preview == "Look"

    def test_what_was_read_is_the_readers_own(self) -> None:
        store = self.make_store()
        self.turn(store, "u1", "a1")
        store.read(owner=ADA, thread_id="thread").messages[0]["content"] = "changed"
        assert store.read(owner=ADA, thread_id="thread").messages == [said("u1"), answer("a1")]

    def test_a_turn_that_was_decided_on_another_revision_is_refused(self) -> None:
        store = self.make_store()
        self.turn(store, "u1", "a1")
        for revision in (None, 0, 1, 3):
            self.refuses(ThreadChanged, self.accept, store, said("u2"), revision=revision)
        self.refuses(ThreadChanged, self.accept, store, said("u2"), thread_id="new", revision=1)
        assert self.current(store) == ["u1", "a1"]
        assert store.view(owner=ADA, thread_id="new") is None
        self.accept(store, said("u2"), revision=2)
        assert self.current(store) == ["u1", "a1", "u2"]

    def test_turns_keep_the_order_of_their_acceptance(self) -> None:
        store = self.make_store()
        first = self.accept(store, said("u1"))
        second = self.accept(store, said("u2"))
        assert self.viewed(store).active == first
        self.save(store, first, (1, answer("a1")), seq=3)
        assert self.current(store) == ["u1", "a1", "u2"]
        self.end(store, first, (2, answer("a1b")))
        assert self.viewed(store).active == second
        self.end(store, second, (1, answer("a2")))
        assert self.current(store) == ["u1", "a1", "a1b", "u2", "a2"]
        assert self.viewed(store).active is None

    def test_the_state_of_a_turn_is_that_of_its_latest_run(self) -> None:
        store = self.make_store()
        states = {
            RunStatus.FINISHED: TurnState.ANSWERED,
            RunStatus.FAILED: TurnState.CUT,
            RunStatus.CANCELLED: TurnState.CUT,
            RunStatus.ORPHANED: TurnState.CUT,
            RunStatus.INTERRUPTED: TurnState.CUT,
        }
        for status, state in states.items():
            run = self.accept(store, said(f"u {status}"))
            self.end(store, run, status=status)
            assert self.viewed(store).turns[-1].state is state
        again = self.accept(store, continues=run)
        view = self.viewed(store)
        assert (view.turns[-1].run, view.turns[-1].state, len(view.turns)) == (again, TurnState.LIVE, len(states))
        self.end(store, again, (0, answer("a")))
        assert self.viewed(store).turns[-1].state is TurnState.ANSWERED
        assert self.current(store)[-2:] == [f"u {RunStatus.INTERRUPTED}", "a"]

    def test_a_turn_waits_for_decisions_and_frontend_results_until_the_next_one(self) -> None:
        store = self.make_store()
        interrupts = [{"id": "i1", "reason": "approval", "toolCallId": "c1"}]
        run = self.accept(store, said("u1"))
        self.end(
            store,
            run,
            (1, answer("a1", "", "c1", "c2")),
            status=RunStatus.INTERRUPTED,
            interrupts=interrupts,
            pending_calls=["c2"],
        )
        view = self.viewed(store)
        assert (view.turns[0].state, view.active) == (TurnState.WAITING, None)
        assert (set(view.open_calls), set(view.open_interrupts)) == ({"c2"}, {"i1"})
        assert store.read(owner=ADA, thread_id="thread").interrupts == interrupts
        self.accept(store, result("t2", "c2"), continues=run)
        view = self.viewed(store)
        assert view.turns[0].state is TurnState.LIVE
        assert not view.open_calls | view.open_interrupts
        assert store.read(owner=ADA, thread_id="thread").interrupts == []
        assert self.current(store) == ["u1", "a1", "t2"]

    def test_a_message_without_answers_gives_up_what_was_open(self) -> None:
        store = self.make_store()
        run = self.accept(store, said("u1"))
        self.end(store, run, (1, answer("a1", "", "c1")), status=RunStatus.INTERRUPTED, interrupts=[{"id": "i1"}])
        self.accept(store, said("u2"))
        view = self.viewed(store)
        assert [turn.state for turn in view.turns] == [TurnState.CUT, TurnState.LIVE]
        assert view.open_interrupts == set()

    def test_a_thread_waits_no_more_where_what_its_run_asked_is_given_up(self) -> None:
        store = self.make_store()
        run = self.accept(store, said("u1"))
        self.end(store, run, (1, answer("a1", "", "c1")), status=RunStatus.INTERRUPTED, interrupts=[{"id": "i1"}])
        store.end_wait(run=run + 1)
        assert self.viewed(store).open_interrupts == {"i1"}
        store.end_wait(run=run)
        view = self.viewed(store)
        assert view.turns[0].state is TurnState.CUT
        assert not view.open_interrupts

    def test_a_queued_turn_does_not_hide_what_the_one_ahead_waits_for(self) -> None:
        store = self.make_store()
        first = self.accept(store, said("u1"))
        self.accept(store, said("u2"))
        self.end(store, first, (1, answer("a1", "", "c1")), pending_calls=["c1"])
        view = self.viewed(store)
        assert [turn.state for turn in view.turns] == [TurnState.WAITING, TurnState.LIVE]
        assert view.open_calls == {"c1"}
        answering = self.accept(store, result("t1", "c1"), continues=first)
        assert self.current(store) == ["u1", "a1", "t1", "u2"]
        assert self.viewed(store).active == answering

    def test_regenerating_keeps_the_old_answer_as_superseded(self) -> None:
        store = self.make_store()
        self.turn(store, "u1", "a1")
        old = self.turn(store, "u2", "a2", "a2b")
        new = self.accept(store, continues=old, supersede_from=3, run_id="again")
        view = self.viewed(store)
        assert (view.turns[1].run, view.turns[1].state) == (new, TurnState.LIVE)
        self.end(store, new, (0, answer("a3")))
        view = self.viewed(store)
        assert self.current(store) == ["u1", "a1", "u2", "a3"]
        assert [(turn.run, turn.state) for turn in view.turns][1:] == [(new, TurnState.ANSWERED)]
        assert view.superseded == {"a2", "a2b"}
        thread = store.read(owner=ADA, thread_id="thread", superseded=True)
        assert ids_of(thread.messages) == ["u1", "a1", "u2", "a3"]
        assert replaced_in(thread) == [("again", ["a2", "a2b"])]
        assert replaced_in(store.read(owner=ADA, thread_id="thread")) == []

    def test_an_edit_replaces_its_turn_and_remembers_what_was_said(self) -> None:
        store = self.make_store()
        self.turn(store, "u1", "a1")
        self.turn(store, "u2", "a2")
        digest = self.viewed(store).messages[2].digest
        self.accept(store, said("u2", "other words"), supersede_from=2, run_id="edit")
        view = self.viewed(store)
        assert [message.id for message in view.messages] == ["u1", "a1", "u2"]
        assert view.messages[2].former == {digest}
        assert view.messages[2].digest != digest
        assert view.superseded == {"a2"}
        assert len(view.turns) == 2
        [row] = store.page(owner=ADA, query=ThreadQuery()).threads
        assert row.turns == 2
        assert replaced_in(store.read(owner=ADA, thread_id="thread", superseded=True)) == [("edit", ["u2", "a2"])]

    def test_a_cut_inside_a_turn_keeps_what_comes_before_it(self) -> None:
        store = self.make_store()
        self.turn(store, "u1", "a1", "a1b")
        self.turn(store, "u2", "a2")
        self.turn(store, "u3", "a3", supersede_from=2)
        assert self.current(store) == ["u1", "a1", "u3", "a3"]
        assert [turn.state for turn in self.viewed(store).turns] == [TurnState.ANSWERED] * 2
        [row] = store.page(owner=ADA, query=ThreadQuery()).threads
        assert row.turns == 2

    def test_what_a_replaced_run_still_writes_is_replaced_too(self) -> None:
        store = self.make_store()
        self.turn(store, "u1", "a1")
        old = self.accept(store, said("u2"))
        self.save(store, old, (1, answer("a2")), seq=3)
        new = self.accept(store, said("u2", "better"), supersede_from=2)
        assert self.viewed(store).active == old
        self.save(store, old, (1, answer("a2", "longer")), (2, answer("a2b")), seq=6, state={"old": 1}, has_state=True)
        self.end(store, old, (3, answer("a2c")), status=RunStatus.INTERRUPTED, interrupts=[{"id": "i1"}])
        view = self.viewed(store)
        assert self.current(store) == ["u1", "a1", "u2"]
        assert view.superseded == {"a2", "a2b", "a2c"}
        assert view.active == new
        assert not view.open_interrupts
        assert store.read(owner=ADA, thread_id="thread").state is None

    def test_following_an_earlier_run_keeps_the_later_turns_as_superseded(self) -> None:
        store = self.make_store()
        runs = [self.turn(store, f"u{number}", f"a{number}") for number in range(1, 5)]
        self.turn(store, "v2", "b2", follows=runs[0], run_id="resumed")
        assert self.current(store) == ["u1", "a1", "v2", "b2"]
        later = [name for number in (2, 3, 4) for name in (f"u{number}", f"a{number}")]
        assert replaced_in(store.read(owner=ADA, thread_id="thread", superseded=True)) == [("resumed", later)]
        [row] = store.page(owner=ADA, query=ThreadQuery()).threads
        assert row.turns == 2

    def test_following_a_replaced_run_makes_its_branch_current_again(self) -> None:
        store = self.make_store()
        self.turn(store, "u1", "a1")
        second = self.turn(store, "u2", "a2")
        again = self.accept(store, continues=second, supersede_from=3)
        self.end(store, again, (0, answer("b2")))
        self.turn(store, "u3", "a3")
        self.turn(store, "v3", "b3", follows=second)
        assert self.current(store) == ["u1", "a1", "u2", "a2", "v3", "b3"]
        view = self.viewed(store)
        assert [turn.run for turn in view.turns][1] == second
        assert view.superseded == {"b2", "u3", "a3"}

    def test_the_ground_of_a_turn_is_the_run_before_it(self) -> None:
        store = self.make_store()
        first = self.turn(store, "u1", "a1")
        self.end(store, going := self.accept(store, continues=first), (0, answer("a1b")))
        second = self.accept(store, said("u2"), said("u2b"))
        ground = store.ground(run=second)
        assert (ground.previous, ground.previous_first, ground.first_of_turn) == (going, first, None)
        assert (ground.kept, ground.question) == (None, [said("u2"), said("u2b")])
        ground = store.ground(run=first)
        assert (ground.previous, ground.previous_first, ground.first_of_turn, ground.kept) == (None, None, None, None)

    def test_the_ground_of_a_new_answer_is_where_its_turn_began(self) -> None:
        store = self.make_store()
        before = self.turn(store, "u1", "a1")
        first = self.turn(store, "u2", "a2")
        again = self.accept(store, continues=first, supersede_from=3)
        ground = store.ground(run=again)
        assert (ground.previous, ground.first_of_turn, ground.question) == (before, first, [said("u2")])
        self.end(store, again, (0, answer("b2")))
        after = store.ground(run=self.accept(store, said("u3")))
        assert (after.previous, after.previous_first, after.kept) == (again, first, None)

    def test_the_ground_behind_a_cut_holds_what_it_kept(self) -> None:
        store = self.make_store()
        self.turn(store, "u1", "a1")
        second = self.turn(store, "u2", "a2", "a2b")
        run = self.accept(store, said("u3"), supersede_from=4)
        ground = store.ground(run=run)
        assert (ground.previous_first, ground.kept) == (second, [said("u2"), answer("a2")])
        assert ground.question == [said("u3")]

    def test_a_cut_between_turns_leaves_the_ground_whole(self) -> None:
        store = self.make_store()
        first = self.turn(store, "u1", "a1")
        self.turn(store, "u2", "a2")
        ground = store.ground(run=self.accept(store, said("u3"), supersede_from=2))
        assert (ground.previous, ground.kept) == (first, None)

    def test_a_cut_that_leaves_the_first_run_of_a_turn_goes_on_from_it(self) -> None:
        store = self.make_store()
        first = self.accept(store, said("u1"))
        self.end(store, first, (1, answer("a1")), status=RunStatus.FAILED)
        self.end(store, second := self.accept(store, continues=first), (0, answer("b1")), (1, answer("b2")))
        ground = store.ground(run=self.accept(store, said("u2"), supersede_from=2))
        assert (ground.previous, ground.kept) == (first, None)
        self.end(store, self.accept(store, said("u2"), follows=second))
        ground = store.ground(run=self.accept(store, said("u3"), supersede_from=3))
        assert (ground.previous_first, ground.kept) == (first, [said("u1"), answer("a1"), answer("b1")])

    def test_imported_messages_come_before_all_turns(self) -> None:
        store = self.make_store()
        run = self.accept(store, said("u1"), imported=[said("u0"), answer("a0")])
        assert self.current(store) == ["u0", "a0", "u1"]
        assert [message.turn for message in self.viewed(store).messages] == [None, None, 0]
        ground = store.ground(run=run)
        assert (ground.previous, ground.kept, ground.question) == (None, [said("u0"), answer("a0")], [said("u1")])
        self.end(store, run, (1, answer("a1")))
        [row] = store.page(owner=ADA, query=ThreadQuery()).threads
        assert (row.turns, row.preview) == (1, "content of u0")
        assert store.ground(run=self.accept(store, said("u2"))).kept is None
        again = self.accept(store, supersede_from=1)
        ground = store.ground(run=again)
        assert (ground.kept, ground.question) == (None, [said("u0")])
        assert self.current(store) == ["u0"]

    def test_the_state_is_part_of_the_ground(self) -> None:
        store = self.make_store()
        run = self.accept(store, said("u1"))
        assert store.ground(run=run).state is None
        self.end(store, run, state={"notes": ["a"]})
        assert store.ground(run=self.accept(store, said("u2"))).state == {"notes": ["a"]}

    def test_the_transcript_of_a_run_ends_with_its_own_messages(self) -> None:
        store = self.make_store()
        first = self.turn(store, "u1", "a1")
        second = self.accept(store, said("u2"))
        self.accept(store, said("u3"))
        assert ids_of(store.transcript(run=second)) == ["u1", "a1", "u2"]
        assert ids_of(store.transcript(run=first)) == ["u1", "a1"]

    def test_a_run_has_come_as_far_as_it_was_saved(self) -> None:
        store = self.make_store()
        first = self.turn(store, "u1", "a1")
        run = self.accept(store, said("u2"))
        so_far = store.so_far(run=run)
        assert (ids_of(so_far.messages), so_far.applied_seq) == (["u1", "a1", "u2"], 1)
        assert (so_far.state, so_far.state_seq) == (None, 0)
        self.save(store, run, (1, answer("a2")), seq=7, has_state=True, state={"n": 1})
        self.save(store, run, (2, answer("a3")), seq=9)
        so_far = store.so_far(run=run)
        assert (ids_of(so_far.messages), so_far.applied_seq) == (["u1", "a1", "u2", "a2", "a3"], 9)
        assert (so_far.state, so_far.state_seq) == ({"n": 1}, 7)
        self.save(store, run, seq=11, has_state=True, state={"n": 2})
        assert store.so_far(run=run).applied_seq == 11
        assert store.so_far(run=first).state_seq == 0

    def test_it_says_which_runs_a_thread_holds(self) -> None:
        store = self.make_store()
        run = self.turn(store, "u1", "a1")
        other = self.turn(store, "v1", "b1", thread_id="other")
        assert store.holds(owner=ADA, thread_id="thread", run=run)
        assert not store.holds(owner=ADA, thread_id="thread", run=other)
        assert not store.holds(owner=ADA, thread_id="unknown", run=run)
        assert not store.holds(owner=BOB, thread_id="thread", run=run)

    def test_it_says_which_run_a_thread_is_at(self) -> None:
        store = self.make_store()
        first = self.turn(store, "u1", "a1")
        second = self.turn(store, "u2", "a2")
        assert store.current_run(owner=ADA, thread_id="thread") == second
        going, queued = self.accept(store, said("u3")), self.accept(store, said("u4"))
        assert store.current_run(owner=ADA, thread_id="thread") == going
        self.end(store, going)
        assert store.current_run(owner=ADA, thread_id="thread") == queued
        self.end(store, queued)
        again = self.turn(store, "u5", "a5", follows=first)
        assert store.current_run(owner=ADA, thread_id="thread") == again

    def test_runs_follow_each_other_in_the_order_of_their_acceptance(self) -> None:
        store = self.make_store()
        first, second = self.turn(store, "u1", "a1"), self.accept(store, said("u2"))
        self.turn(store, "v1", "b1", thread_id="other")
        again = self.accept(store, supersede_from=1)
        last = self.accept(store, said("u3"))
        found, after = [], 0
        while (run := store.next_run(owner=ADA, thread_id="thread", after=after)) is not None:
            found.append((run.key, run.replaces))
            after = run.key
        assert found == [(first, False), (second, False), (again, True), (last, False)]

    def test_progress_names_the_newest_run_of_each_thread_that_is_there(self) -> None:
        store = self.make_store()
        self.turn(store, "u1", "a1")
        newest = self.accept(store, said("u2"))
        other = self.turn(store, "v1", "b1", thread_id="other")
        names = [(ADA, "thread"), (ADA, "other"), (ADA, "unknown"), (BOB, "thread")]
        assert store.progress(names) == {names[0]: newest, names[1]: other}
        store.delete(owner=ADA, thread_id="other")
        assert store.progress(names) == {names[0]: newest}

    def test_titles_fall_back_on_the_preview(self) -> None:
        store = self.make_store()
        for name in ("a", "b"):
            self.turn(store, "u1", thread_id=name)
        self.turn(store, "u1", thread_id="c", owner=BOB)
        store.rename(owner=ADA, thread_id="b", title="Title")
        titles = store.titles(owner=ADA, thread_ids=["a", "b", "c", "d"])
        assert titles == {"a": "content of u1", "b": "Title"}

    def test_a_title_of_a_person_wins(self) -> None:
        store = self.make_store()
        self.turn(store, "u1", "a1")
        store.entitle(owner=ADA, thread_id="thread", title="Made")
        assert store.read(owner=ADA, thread_id="thread").title == "Made"
        store.rename(owner=ADA, thread_id="thread", title="Given")
        store.entitle(owner=ADA, thread_id="thread", title="Made again")
        assert store.read(owner=ADA, thread_id="thread").title == "Given"
        store.rename(owner=ADA, thread_id="thread", title="Given again")
        assert store.read(owner=ADA, thread_id="thread").title == "Given again"

    def test_a_title_of_a_megabyte_is_refused_or_cut(self) -> None:
        store = self.make_store()
        self.turn(store, "u1", "a1")
        store.entitle(owner=ADA, thread_id="thread", title="x" * 1_000_000)
        made = store.read(owner=ADA, thread_id="thread").title
        assert made.startswith("xxx")
        assert len(made) <= 1_000
        self.refuses(InvalidInput, store.rename, owner=ADA, thread_id="thread", title="y" * 1_000_000)
        assert store.read(owner=ADA, thread_id="thread").title == made

    def test_a_title_is_one_line_that_every_database_takes(self) -> None:
        store = self.make_store()
        self.turn(store, "u1", "a1")
        store.rename(owner=ADA, thread_id="thread", title="a\0b\n \N{GRINNING FACE}\ud800")
        assert store.read(owner=ADA, thread_id="thread").title == "a\ufffdb \N{GRINNING FACE}\ufffd"

    def test_a_message_of_ten_megabytes_is_kept_whole(self) -> None:
        store = self.make_store()
        long = said("u1", "\N{SNOWMAN}" * 3_500_000)
        run = self.accept(store, long)
        self.end(store, run, (1, answer("a1", "x" * 10_000_000)))
        assert store.read(owner=ADA, thread_id="thread").messages == [long, answer("a1", "x" * 10_000_000)]
        assert [message.id for message in self.viewed(store).messages] == ["u1", "a1"]
        [row] = store.page(owner=ADA, query=ThreadQuery()).threads
        assert len(row.preview or "") <= 120

    def test_a_large_message_may_become_small(self) -> None:
        store = self.make_store()
        run = self.accept(store, said("u1"))
        self.save(store, run, (1, answer("a1", "x" * 10_000_000)), seq=3)
        self.save(store, run, (1, answer("a0", "y")), (2, answer("a1", "z" * 5_000_000)), seq=5)
        messages = store.read(owner=ADA, thread_id="thread").messages
        assert messages == [said("u1"), answer("a0", "y"), answer("a1", "z" * 5_000_000)]

    def test_C10_ids_of_any_case_and_length_are_threads_of_their_own(self) -> None:
        store = self.make_store()
        for number, thread_id in enumerate(AWKWARD_IDS):
            self.turn(store, f"u{number}", "same", thread_id=thread_id)
        for number, thread_id in enumerate(AWKWARD_IDS):
            assert self.current(store, thread_id) == [f"u{number}", "same"]
        threads = store.page(owner=ADA, query=ThreadQuery()).threads
        assert [row.thread_id for row in threads] == list(AWKWARD_IDS)[::-1]

    def test_C16_other_owners_see_nothing(self) -> None:
        store = self.make_store()
        self.turn(store, "u1", "a1")
        assert store.view(owner=BOB, thread_id="thread") is None
        assert store.page(owner=BOB, query=ThreadQuery()).threads == []
        self.refuses_unknown(store, BOB, "thread")
        self.turn(store, "v1", "b1", owner=BOB)
        store.delete(owner=BOB, thread_id="thread")
        assert self.current(store) == ["u1", "a1"]
        assert store.read(owner=ADA, thread_id="thread").title == ""

    def test_the_thread_that_changed_last_comes_first(self) -> None:
        store = self.make_store()
        for name in "abc":
            self.turn(store, "u1", "a1", thread_id=name)
        run = self.accept(store, said("u2"), thread_id="a")
        assert self.listed(store) == ["a", "c", "b"]
        self.turn(store, "u2", "a2", thread_id="b")
        assert self.listed(store) == ["b", "a", "c"]
        self.end(store, run)
        assert self.listed(store) == ["a", "b", "c"]
        store.rename(owner=ADA, thread_id="c", title="Title")
        assert self.listed(store) == ["a", "b", "c"]

    def test_archived_threads_have_a_list_of_their_own(self) -> None:
        store = self.make_store()
        for name in "abc":
            self.turn(store, "u1", "a1", thread_id=name)
        store.archive(owner=ADA, thread_id="b", archived=True)
        assert (self.listed(store), self.listed(store, archived=True)) == (["c", "a"], ["b"])
        assert store.read(owner=ADA, thread_id="b").archived
        store.archive(owner=ADA, thread_id="b", archived=False)
        assert (self.listed(store), self.listed(store, archived=True)) == (["c", "b", "a"], [])

    def test_search_looks_into_titles_and_previews(self) -> None:
        store = self.make_store()
        for name, text in {"a": "How to bake bread", "b": "100% sure", "c": "under_score"}.items():
            run = self.accept(store, said("u1", text), thread_id=name)
            self.end(store, run)
        store.rename(owner=ADA, thread_id="b", title="Baking for beginners")
        assert self.listed(store, text="BAK") == ["b", "a"]
        assert self.listed(store, text="bread") == ["a"]
        assert self.listed(store, text="%") == ["b"]
        assert self.listed(store, text="_") == ["c"]
        assert self.listed(store, text="nothing") == []
        assert self.listed(store, text="\0") == []

    def test_cursors_lead_through_all_threads_once(self) -> None:
        store = self.make_store()
        names = [f"thread {number}" for number in range(7)]
        for name in names:
            self.turn(store, "u1", thread_id=name)
        for limit in (1, 2, 3, 7, 8, 0):
            found: list[str] = []
            query = ThreadQuery(limit=limit)
            while True:
                page = store.page(owner=ADA, query=query)
                assert len(page.threads) <= (limit or len(names))
                found += [row.thread_id for row in page.threads]
                if page.next is None:
                    break
                query = replace(query, cursor=page.next)
            assert found == names[::-1]

    def test_a_made_up_cursor_is_refused(self) -> None:
        store = self.make_store()
        self.turn(store, "u1")
        for cursor in ("", "1", "0" * 48, "\N{GRINNING FACE}", "x" * 10_000):
            self.refuses(InvalidInput, store.page, owner=ADA, query=ThreadQuery(cursor=cursor))

    def test_deleting_a_thread_leaves_nothing_of_it(self) -> None:
        store = self.make_store()
        self.turn(store, "u1", "a1")
        going = self.accept(store, said("u2"))
        queued = self.accept(store, said("u3"))
        self.turn(store, "u1", "a1", thread_id="other")
        assert store.delete(owner=ADA, thread_id="thread") == [going, queued]
        self.refuses_unknown(store, ADA, "thread")
        assert self.listed(store) == ["other"]
        assert store.view(owner=ADA, thread_id="thread") is None
        assert self.end(store, going) == 0
        self.turn(store, "v1", "b1")
        assert (self.current(store), self.viewed(store).revision) == (["v1", "b1"], 2)

    def test_a_change_bound_to_another_revision_changes_nothing(self) -> None:
        store = self.make_store()
        self.turn(store, "u1", "a1")
        for method, change in ((store.rename, {"title": "T"}), (store.archive, {"archived": True}), (store.delete, {})):
            for revision in (1, 3):
                self.refuses(ThreadChanged, method, owner=ADA, thread_id="thread", revision=revision, **change)
            self.refuses(ThreadNotFound, method, owner=BOB, thread_id="thread", revision=2, **change)
        thread = store.read(owner=ADA, thread_id="thread")
        assert (thread.title, thread.archived, ids_of(thread.messages)) == ("", False, ["u1", "a1"])

    def test_a_change_bound_to_the_current_revision_is_made(self) -> None:
        store = self.make_store()
        self.turn(store, "u1", "a1")
        store.rename(owner=ADA, thread_id="thread", title="Title", revision=2)
        store.archive(owner=ADA, thread_id="thread", archived=True, revision=2)
        thread = store.read(owner=ADA, thread_id="thread")
        assert (thread.title, thread.archived, thread.revision) == ("Title", True, 2)
        assert store.delete(owner=ADA, thread_id="thread", revision=2) == []
        self.refuses_unknown(store, ADA, "thread")

    def listed(self, store: ConversationStore, **query: Any) -> list[str]:
        return [row.thread_id for row in store.page(owner=ADA, query=ThreadQuery(**query)).threads]

    def refuses_unknown(self, store: ConversationStore, owner: Owner, thread_id: str) -> None:
        """See that each method that names a thread says that there is none."""
        for method, arguments in (
            (store.read, {}),
            (store.rename, {"title": "Title"}),
            (store.entitle, {"title": "Title"}),
            (store.archive, {"archived": True}),
            (store.delete, {}),
            (store.current_run, {}),
            (store.next_run, {"after": 0}),
        ):
            self.refuses(ThreadNotFound, method, owner=owner, thread_id=thread_id, **arguments)

    def refuses(self, error: type[Exception], call: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """See that a call raises `error`."""
        try:
            call(*args, **kwargs)
        except error:
            return
        raise AssertionError(f"{error.__name__} was not raised")


def ids_of(messages: Sequence[JsonObject]) -> list[str]:
    return [message["id"] for message in messages]


def replaced_in(thread: StoredThread) -> list[tuple[str | None, list[str]]]:
    return [(replaced.replaced_by, ids_of(replaced.messages)) for replaced in thread.superseded]
