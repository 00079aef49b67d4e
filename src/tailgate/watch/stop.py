# SPDX-License-Identifier: GPL-2.0-only
"""A wait that ends when a signal asks the process to end."""

import os
import select
import signal
from collections.abc import Sequence
from typing import Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class StopSignals:
    """Inside of `with`, Ctrl-C, Ctrl-\\, SIGTERM and the loss of the terminal only end wait().

    A signal that was ignored before stays ignored, as under nohup.
    """

    def __init__(self, signals: Sequence[signal.Signals] = SIGNALS) -> None:
        self._signals = [n for n in signals if signal.getsignal(n) != signal.SIG_IGN]

    def __enter__(self) -> Self:
        # The interpreter writes each signal into the pipe, where it stays, so no signal handler does any
        # work.
        self._arrived, self._writes = os.pipe()
        os.set_blocking(self._writes, False)
        self._wakeup_before = signal.set_wakeup_fd(self._writes, warn_on_full_buffer=False)
        self._before = [signal.signal(n, lambda *_: None) for n in self._signals]
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in zip(self._signals, self._before, strict=True):
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._arrived)
        os.close(self._writes)

    def wait(self, seconds: float) -> bool:
        """Wait for `seconds`, or until a signal. Whether a signal has come since __enter__()."""
        return bool(select.select([self._arrived], [], [], max(0.0, seconds))[0])
