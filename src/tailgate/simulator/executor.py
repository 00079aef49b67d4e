# SPDX-License-Identifier: GPL-2.0-only
"""Executors of simulations: processes of this host, or the workers of a Dask cluster."""

import importlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager

from tailgate.base.errors import UsageError

DASK_ANSWERS_S = 5.0


@contextmanager
def executor(jobs: int, dask: str | None) -> Iterator[Executor]:
    """`jobs` processes of this host, or the workers of the Dask scheduler at this address."""
    if dask is None:
        # A forked worker would inherit locks that other threads hold; a spawned one does not.
        fresh = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(jobs, mp_context=fresh, initializer=_begin)
        try:
            yield pool
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return
    try:
        distributed = importlib.import_module("distributed")
    except ImportError as e:
        raise UsageError("--dask needs the Python package distributed; `make venv-dev` installs it") from e
    try:
        client = distributed.Client(dask, timeout=DASK_ANSWERS_S)
    except (OSError, ValueError) as e:
        raise UsageError(f"no Dask scheduler answers at {dask} ({e})") from e
    with client, client.get_executor(pure=False) as workers:
        yield workers


def _begin() -> None:
    """Prepare a new worker."""
    # The terminal interrupts the workers too; their tracebacks would hide the message of the main process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker with the main process; a killed main process would leave it waiting for work."""
    parent = multiprocessing.parent_process()
    assert parent
    parent.join()
    os._exit(1)
