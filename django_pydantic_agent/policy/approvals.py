"""Approvals: which tool calls ask for one, what a post answers, and what an answer is to the agent."""

import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_noop as _
from pydantic import BaseModel, Field, StrictBool, ValidationError
from pydantic_ai import ApprovalRequired, ToolApproved, ToolDenied
from pydantic_ai.capabilities import AbstractCapability, WrapToolExecuteHandler
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_core import from_json

from django_pydantic_agent.log.closing import INTERRUPTED_RESULT
from django_pydantic_agent.log.frames import wire_form
from django_pydantic_agent.policy.verdicts import VERDICTS
from django_pydantic_agent.runs.states import Decision, Question
from django_pydantic_agent.stores.approvals import Answer, StoredInterrupt
from django_pydantic_agent.stores.effects import MAX_NOTE_CHARACTERS
from django_pydantic_agent.threads.reconcile import Attach, Refuse

if TYPE_CHECKING:
    from ag_ui.core import ResumeEntry

Takes = Callable[[str, dict[str, Any]], bool]
"""Says of a tool, by name, whether it takes these arguments."""


@dataclass
class ApprovalPolicy(AbstractCapability[Any]):
    """Has the calls approved of which `needs_approval` says so, by the tool's name and its valid arguments."""

    needs_approval: Callable[[str, dict[str, Any]], Awaitable[Any]]
    id: str | None = field(default="django_pydantic_agent_approval_policy", kw_only=True)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        if not ctx.tool_call_approved and await self.needs_approval(call.tool_name, args):
            raise ApprovalRequired
        return await handler(args)


class _Payload(BaseModel):
    """What the response schema of an interrupt asks for."""

    approved: StrictBool
    edited_args: dict[str, Any] | None = Field(default=None, alias="editedArgs")
    reason: str | None = None


def read_answers(
    entries: "Sequence[ResumeEntry]",
    asked: Sequence[StoredInterrupt],
    *,
    calls: Collection[str],
    results: Collection[str],
    takes: Takes,
) -> Sequence[Answer] | Attach | Refuse:
    """Return the answers of a post to what one run `asked`, the run that has them already, or why they are refused.

    `calls` are the frontend tool calls that the run waits for too, `results` those that the post answers.
    """
    by_id = {interrupt.id: interrupt for interrupt in asked}
    if any(entry.interrupt_id not in by_id for entry in entries):
        return UNKNOWN_INTERRUPT
    if len({entry.interrupt_id for entry in entries}) < len(entries):
        return _refuse(422, "invalid_answer", _("an interrupt is answered twice"))
    answers = []
    for entry in entries:
        answer = _answer(entry, by_id[entry.interrupt_id], takes)
        if isinstance(answer, Refuse):
            return answer
        answers.append(answer)
    answered = [by_id[answer.id] for answer in answers]
    if any(interrupt.decision is not Decision.PENDING for interrupt in answered):
        return _repeated(answers, answered)
    pairs = zip(answers, answered, strict=True)
    if any(interrupt.has_expired and answer.decision is not Decision.CANCELLED for answer, interrupt in pairs):
        return _refuse(409, "interrupt_expired", _("the interrupt has expired, it can only be cancelled"))
    missing = [interrupt.id for interrupt in asked if interrupt not in answered]
    missing += [call for call in calls if call not in results]
    if missing:
        return _refuse(422, "answers_missing", _("the run waits for more answers than the post gives"), *missing)
    return answers


def approval(interrupt: StoredInterrupt) -> ToolApproved | ToolDenied:
    """Return what the answer to an interrupt is to the agent."""
    if interrupt.reason == Question.UNKNOWN_EFFECT:
        return ToolDenied(INTERRUPTED_RESULT if (verdict := interrupt.verdict) is None else VERDICTS[verdict])
    said = interrupt.answer or {}
    if interrupt.decision is Decision.APPROVED:
        return ToolApproved(override_args=said["editedArgs"])
    if interrupt.decision is Decision.CANCELLED:
        return ToolDenied("The tool call was cancelled by the user.")
    return ToolDenied(said["reason"]) if said.get("reason") else ToolDenied()


def restored(stored: Any, edited: Any) -> Any:
    """Return edited arguments, with the stored number in place of each that is the same one as an IEEE double.

    That is all that a number keeps on its way through a browser.
    """
    if isinstance(stored, dict) and isinstance(edited, dict):
        return {key: restored(stored.get(key), value) for key, value in edited.items()}
    if isinstance(stored, list) and isinstance(edited, list):
        pairs = zip([*stored, *[None] * len(edited)], edited, strict=False)
        return [restored(before, value) for before, value in pairs]
    if _is_number(stored) and _is_number(edited) and _double(stored) == _double(edited):
        return stored
    return edited


def _refuse(status: int, code: str, message: str, *missing: str) -> Refuse:
    return Refuse(status=status, code=code, message=message, missing=missing)


UNKNOWN_INTERRUPT = _refuse(422, "unknown_interrupt", _("the thread has asked nothing of this id"))


def _answer(entry: "ResumeEntry", interrupt: StoredInterrupt, takes: Takes) -> Answer | Refuse:
    if entry.status == "cancelled":
        return Answer(run=interrupt.run, id=interrupt.id, decision=Decision.CANCELLED, said={"status": "cancelled"})
    try:
        payload = _Payload.model_validate(entry.payload)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        where = ", ".join(f"{'.'.join(map(str, fault['loc'])) or 'payload'}: {fault['type']}" for fault in faults[:5])
        return _refuse(422, "invalid_answer", f"the answer does not fit the response schema ({where[:500]})")
    was_called = interrupt.reason == Question.UNKNOWN_EFFECT
    if was_called and len(payload.reason or "") > MAX_NOTE_CHARACTERS:
        return _refuse(422, "invalid_answer", _("the reason is too long"))
    if was_called and payload.edited_args is not None:
        return _refuse(422, "invalid_answer", _("a call that was made takes no other arguments"))
    edited = None
    if payload.approved and payload.edited_args is not None:
        stored = from_json(interrupt.call.arguments or "{}")
        edited = restored(stored, wire_form(payload.edited_args))
        if _text(edited) == _text(stored):
            edited = None
        elif not takes(interrupt.call.tool_name, edited):
            return _refuse(422, "invalid_answer", _("the tool does not take the edited arguments"))
    reason = None if payload.approved and not was_called else payload.reason
    said = {"approved": payload.approved, "editedArgs": edited, "reason": reason}
    return Answer(
        run=interrupt.run,
        id=interrupt.id,
        decision=Decision.APPROVED if payload.approved else Decision.DENIED,
        said=wire_form(said),
        verdict_on=interrupt.tool_call_id if was_called else "",
    )


def _repeated(answers: Sequence[Answer], answered: Sequence[StoredInterrupt]) -> Attach | Refuse:
    deciders = {interrupt.decided_by for interrupt in answered}
    pairs = zip(answers, answered, strict=True)
    is_equal = all(_text(restored(one.answer, answer.said)) == _text(one.answer) for answer, one in pairs)
    if is_equal and len(deciders) == 1 and (decider := deciders.pop()) is not None:
        return Attach(decider)
    return _refuse(409, "already_decided", _("the interrupt was decided before"))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _double(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _text(arguments: Any) -> str:
    return json.dumps(arguments, sort_keys=True)
