"""What the model is told of a call that was cut, once somebody knows or has decided what became of it."""

from django_pydantic_agent.stores.effects import Verdict

LOST_RESULT = "The tool has run, but its result was lost."
VERDICTS = {
    Verdict.HAPPENED: LOST_RESULT,
    Verdict.DID_NOT_HAPPEN: "The tool call was interrupted, and the tool has done nothing.",
    Verdict.IGNORED: "The tool call was interrupted. Nobody knows whether the tool has done anything.",
}
"""By the verdict that a person has given on the call."""
