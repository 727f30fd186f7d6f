"""Arguments in, words out; one file per verb. May import: everything."""

import os
import sys


def main() -> None:
    """The `accord` command. Ends the process with its exit status."""
    status = 130
    try:
        from accord.cli.root import run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("\n  Stopped; nothing is left running.\n")
    except SystemExit as end:
        if end.code not in (130, 143):
            raise
        status = end.code
    # All that ran has been closed. The interpreter's own way out would answer one more Ctrl-C with a traceback,
    # and ends by signal if the first one came while it read generated code.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
