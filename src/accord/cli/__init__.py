"""Arguments in, words out; one file per verb. May import: everything."""


def main() -> None:
    """The `accord` command. Ends the process with its exit status."""
    from accord.cli.root import run

    run()
