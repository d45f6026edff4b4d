"""What the studio and the study server share: starting, guarding and refusing."""

from importlib.util import find_spec

from limner.errors import MissingError


def check_installed(command: str, extras: str) -> None:
    """Refuse to start a server without the packages that serve.

    Args:
        command: that wants to.
        extras: of limner that bring them, separated by commas.
    Raises:
        MissingError: one is not installed.
    """
    for name in ("fastapi", "uvicorn"):
        if find_spec(name) is None:
            raise MissingError(f'{command}: {name} is not installed; run: pip install "limner[{extras}]"')
