"""How a command is asked to end.

In: nothing. Out: `Terminated`. Invariant: it is handled wherever Ctrl-C is, and told apart only by its status.
"""


class Terminated(KeyboardInterrupt):
    """SIGTERM: as polite as Ctrl-C, and cleaned up after in the same way."""
