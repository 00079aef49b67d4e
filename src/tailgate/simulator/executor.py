# SPDX-License-Identifier: GPL-2.0-only
"""Where simulations run: processes of this host, or the workers of a Dask cluster."""

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
    """`jobs` processes of this host, or, with the address of a Dask scheduler, its workers."""
    if dask is None:
        # A fork would take along the threads' locks; started anew, a worker has none.
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
    """A worker's beginning."""
    # The terminal interrupts the workers too; their tracebacks would hide the message of the main process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A main process that is killed cannot end its workers, which would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent
    parent.join()
    os._exit(1)
