"""The one error tree, drawn whole.

AccordError
  BadInput      the user's input is wrong: field, value, fix            exit status 2
  BrokenEdge    a device, network, engine, file or process failed       exit status 3
  Overloaded    well-formed, but not now: retry_after_s                 HTTP 429 or 503

A request that can't be met is not an exception but a `Refusal` (terms/refusal.py), exit status 1.
"""


class AccordError(Exception):
    """The root; never raised itself."""

    exit_status = 3


class BadInput(AccordError):
    """Wrong input. The text reads `field: value: problem; fix`."""

    exit_status = 2

    def __init__(self, *, field: str, value: object, problem: str, fix: str) -> None:
        shown = repr(value) if isinstance(value, str) else str(value)
        if len(shown) > 120:
            shown = shown[:117] + "..."
        super().__init__(f"{field}: {shown}: {problem}; {fix}")
        self.field = field
        self.problem = problem
        self.fix = fix


class BrokenEdge(AccordError):
    """Something outside this program failed; the text names it and the way out."""

    exit_status = 3


class Overloaded(AccordError):
    """The service can't take this request now.

    `serving` is False when a stage is down altogether (HTTP 503) and True for a full queue (HTTP 429).
    """

    def __init__(self, text: str, *, retry_after_s: float, serving: bool = True) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s
        self.serving = serving
