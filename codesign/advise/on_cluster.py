"""Trials by the workers of a Dask cluster; what they find is kept where the question is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path

from distributed import as_completed
from distributed.scheduler import KilledWorker

from tilewright.codesign.advise.changes import Change
from tilewright.codesign.advise.kept_trials import kept_trial, known_trial
from tilewright.codesign.advise.trials import Bench, NoAdvice, Trial
from tilewright.codesign.dask_client import CONNECT_SECONDS, client_at, require_same_code
from tilewright.codesign.errors import StudyError
from tilewright.codesign.version import version


class OnCluster:
    """Workers with the networks in memory. With `keep`, a folder, a trial that is there is not made again."""

    def __init__(self, address: str, bench: Bench, keep: Path | None) -> None:
        """Raises StudyError where no scheduler answers, or no worker comes."""
        self._address, self._bench, self._keep = address, bench, keep
        self._client = client_at(address)
        try:
            self._client.wait_for_workers(1, timeout=CONNECT_SECONDS)
            self._there = self._client.scatter(bench, broadcast=True)
        except (OSError, TimeoutError) as error:
            self._client.close()
            raise StudyError(f"{address}: no worker of the cluster comes within {CONNECT_SECONDS} seconds") from error

    def close(self) -> None:
        with suppress(OSError, TimeoutError):
            self._client.close()

    def trials(self, changes: Sequence[Change | None]) -> Iterator[tuple[int, Trial]]:
        """(position, trial) of each change as it is made. Raises PriceError, StudyError and NoAdvice."""
        waiting = {}
        for position, change in enumerate(changes):
            known = None if self._keep is None else known_trial(self._bench, change, self._keep)
            if known is None:
                future = self._client.submit(_tried, self._there, change, version(), pure=False)
                waiting[future] = position
            else:
                yield position, known
        try:
            for future in as_completed(waiting, loop=self._client.loop):
                yield waiting[future], self._kept(changes[waiting[future]], future.result())
        except KilledWorker as error:
            reason = "workers of the cluster died over a trial, as when memory runs out"
            raise NoAdvice(f"{self._address}: {reason}") from error
        except (CancelledError, OSError) as error:
            raise StudyError(
                f"{self._address}: the Dask scheduler is gone; all results before are kept: give the same command "
                "again, with a scheduler that runs"
            ) from error

    def _kept(self, change: Change | None, trial: Trial) -> Trial:
        return trial if self._keep is None else kept_trial(self._bench, change, self._keep, lambda: trial)


def _tried(bench: Bench, change: Change | None, code: str) -> Trial:
    """What a worker does."""
    require_same_code(code)
    return bench.trial(change)
