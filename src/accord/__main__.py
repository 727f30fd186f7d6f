"""`python -m accord` is `accord`. In: arguments. Out: an exit status."""

from accord.cli import main

if __name__ == "__main__":
    main()
