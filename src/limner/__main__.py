"""``python -m limner``: the same as the ``limner`` command."""

from limner.apps.cli import main

if __name__ == "__main__":
    main()
