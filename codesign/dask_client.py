"""A Dask scheduler's client, and what keeps workers of other code away."""

from __future__ import annotations

from pathlib import Path

from distributed import Client, get_worker

from tilewright.codesign.errors import StudyError
from tilewright.codesign.version import version

CONNECT_SECONDS = 30
"""How long a scheduler may take to answer."""


def client_at(address: str) -> Client:
    """Of the scheduler at an address, or of the one that a scheduler file names. Raises StudyError if none answers."""
    where = {"scheduler_file": address} if Path(address).is_file() else {"address": address}
    try:
        return Client(**where, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise StudyError(
            f"{address}: no Dask scheduler answers there ({error}); expected such as tcp://host:8786, "
            "or the file that `dask scheduler --scheduler-file` writes"
        ) from error


def require_same_code(code: str) -> None:
    """In a worker: raises StudyError where its code is not the run's."""
    if version() != code:
        raise StudyError(
            f"the worker at {get_worker().address} has other code ({version()}) than this run ({code}); "
            "install the same version of Tilewright on all machines"
        )
