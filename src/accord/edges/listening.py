"""Whether an address can be listened on, asked before anything slow is started.

In: host and port. Out: nothing, or BrokenEdge. Invariant: nothing stays bound.
"""

import errno
import socket

from accord.terms.errors import BrokenEdge


def check_free(host: str, port: int) -> None:
    """BrokenEdge if another process holds the port. What else may be wrong is told when the door opens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host.strip("[]"), port))
            probe.listen(1)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BrokenEdge(
                f"serving.port: {port}: already taken on {host}; stop what holds it, or pass --port 0 for a free one"
            ) from None
