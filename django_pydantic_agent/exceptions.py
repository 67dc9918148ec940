"""What can go wrong with a run, named for what happened."""


class RunError(Exception):
    """Base class of every error of this package."""


class RunNotFound(RunError):
    """The run is not there, or not any more."""


class RunIdTaken(RunError):
    """The owner already has a run of this id; `run` is that run, None where it is one that only the ledger knows."""

    def __init__(self, run: object) -> None:
        super().__init__("run id is taken")
        self.run = run


class LogPruned(RunError):
    """The run's log is not kept any more from where it was to be read; `first_seq` is the first event that is kept."""

    def __init__(self, first_seq: int) -> None:
        super().__init__(f"the log is kept from seq {first_seq} on")
        self.first_seq = first_seq


class IdempotencyKeyTaken(RunError):
    """The owner has started a run under this idempotency key before."""


class ThreadNotFound(RunError):
    """The owner has no thread of this id."""


class ThreadChanged(RunError):
    """The thread is at another revision than the one that was decided on."""


class InterruptDecided(RunError):
    """An interrupt was decided before this answer to it."""


class NotContinuable(RunError):
    """The run has no complete snapshot to continue from."""


class NothingToRun(RunError):
    """The input holds nothing that the model could answer."""


class InvalidInput(RunError):
    """The posted input cannot be run; the text says why and is safe to show."""


class LeaseLost(RunError):
    """Another process has taken the run over; nothing of this process is written any more."""


class ShuttingDown(RunError):
    """This process is about to end and begins no more runs."""


class StoreUnavailable(RunError):
    """The store could not be written to within the patience the settings allow."""


class UnstorableWrite(RunError):
    """The store refused what a run wrote, and would refuse it again."""


class WriteTooLarge(UnstorableWrite):
    """What was to be written at once is more than the store takes."""


class WrongTestCase(RunError):
    """A run was started where the chosen executor cannot see its rows."""
