"""What real clients post, as `node record/<client>.mjs` in tests/node has recorded it, and what becomes of it."""

import json
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from ag_ui.core import RunAgentInput

from django_pydantic_agent.threads.posture import TurnState
from django_pydantic_agent.threads.reconcile import Attach, GoOn, Refuse, Regenerate, Start
from tests.stock_client import NODE, install_clients
from tests.threads.conversation import Conversation

RECORDINGS = Path(__file__).parent.parent / "fixtures" / "requests"
STATES = {"finished": TurnState.ANSWERED, "failed": TurnState.CUT}

# For each act its decision; "behind" where the client must be caught up, "edit" where stored messages are replaced.
DECISIONS = {
    "http_agent": {
        "first turn": "Start",
        "next turn": "Start",
        "turn with a tool of the server": "Start",
        "turn of a client that is behind": "Start behind",
        "nothing at all": "Refuse",
        "only the new turn": "Start behind",
        "turn after catching up": "Start",
        "run again": "Regenerate behind",
        "edit of the last turn": "Start edit",
        "truncation that names the revision": "Start edit",
        "turn that calls a tool of the client": "Start",
        "result of that tool": "Start results",
        "turn that is left": "Start",
        "run again after leaving": "Attach",
    },
    "tanstack": {
        "first turn": "Start",
        "next turn": "Start",
        "reload": "Regenerate",
        "turn after a reload": "Start",
        "turn with a tool of the server": "Start",
        "turn with a picture": "Start",
        "turn that calls a tool of the client": "Start",
        "result of that tool": "Start results",
        "turn after the tool": "Start",
        "turn that fails": "Start",
        "reload after the failure": "GoOn behind",
        "turn that is stopped": "Start",
        "reload after stopping": "Attach",
    },
    "copilotkit": {
        "first turn": "Start",
        "turn with a tool of the server": "Start",
        "turn that calls a tool of the client, and its result": "Start, Start results",
        "suggestions": "Start behind",
        "turn after the suggestions": "Start",
        "run again": "Regenerate behind",
    },
    "assistant_ui": {
        "first turn": "Start",
        "next turn": "Start",
        "regenerate": "Regenerate",
        "turn with a tool of the server": "Start",
        "regenerate an answer with a tool in it": "Regenerate behind",
        # An edited message gets a new id and no revision: a client that is behind, as far as anybody can tell.
        "edit of the last turn": "Start behind",
        "turn that fails": "Start behind",
        "regenerate after the failure": "GoOn behind",
        "turn that is stopped": "Start behind",
        "regenerate after stopping": "Attach",
    },
}


def summary(decision):
    words = [type(decision).__name__]
    if isinstance(decision, Start):
        words += ["edit"] * (decision.supersede_from is not None) + ["results"] * bool(decision.results)
    if isinstance(decision, Start | Regenerate | GoOn):
        words += ["behind"] * decision.client.catch_up
    return " ".join(words)


def replay(recording):
    """Return the summaries of the decisions by act, and the conversations by thread id."""
    decisions = defaultdict(list)
    conversations = defaultdict(Conversation)
    for post in recording["posts"]:
        conversation = conversations[post["body"]["threadId"]]
        decision = conversation.take(RunAgentInput.model_validate(post["body"]))
        decisions[post["act"]].append(summary(decision))
        if not isinstance(decision, Attach | Refuse) and post["status"] in STATES:
            last = post["answer"][-1]
            calls = [call["id"] for call in last.get("toolCalls", ())]
            conversation.end(STATES[post["status"]], post["answer"], calls)
    return {act: ", ".join(words) for act, words in decisions.items()}, conversations


@pytest.mark.parametrize("client", DECISIONS)
def test_each_act_of_a_real_client_is_understood(client):
    decisions, _ = replay(json.loads((RECORDINGS / f"{client}.json").read_text()))
    assert decisions == DECISIONS[client]


@pytest.mark.parametrize("client", DECISIONS)
def test_nothing_that_a_real_client_said_is_taken_twice_or_lost(client):
    recording = json.loads((RECORDINGS / f"{client}.json").read_text())
    _, conversations = replay(recording)
    posted = {
        message["id"]
        for post in recording["posts"]
        for message in post["body"]["messages"]
        if message["role"] == "user"
    }
    kept = {id_ for conversation in conversations.values() for id_ in conversation.ids}
    replaced = {message["id"] for conversation in conversations.values() for message in conversation.replaced}
    assert posted <= kept | replaced
    for conversation in conversations.values():
        assert len(conversation.ids) == len(set(conversation.ids))


# Beside others a client may post before it has read all.
@pytest.mark.serial
@pytest.mark.node
@pytest.mark.parametrize("client", DECISIONS)
def test_the_installed_client_still_posts_what_was_recorded(client, tmp_path):
    install_clients()
    subprocess.run(
        ["node", f"record/{client}.mjs", str(tmp_path)], cwd=NODE, check=True, capture_output=True, timeout=120
    )
    decisions, _ = replay(json.loads((tmp_path / f"{client}.json").read_text()))
    assert decisions == DECISIONS[client]
