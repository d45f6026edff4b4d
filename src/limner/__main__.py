"""``python -m limner``: the same as the ``limner`` command."""

from limner.cli.main import main

if __name__ == "__main__":
    main()
