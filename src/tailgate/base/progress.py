# SPDX-License-Identifier: GPL-2.0-only
"""Progress on standard error: stage, points done, time left."""

import threading
import time
from collections.abc import Callable

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

#: Takes a line that a person may read, such as `Progress.note`.
Tell = Callable[[str], None]


def duration(seconds: float) -> str:
    """`8 s`, `1:05 min`, `2:05 h`."""
    s = max(0, round(seconds))
    if s < 60:
        return f"{s} s"
    return f"{s // 60}:{s % 60:02} min" if s < 3600 else f"{s // 3600}:{s % 3600 // 60:02} h"


class Progress:
    """Progress as a line that changes on a terminal, elsewhere as a line for each event. Thread-safe."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self._clock = clock
        self._lock = threading.Lock()
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._total = self._done = 0
        self._weight_total = self._weight_done = 0.0
        self._began = 0.0

    def note(self, text: str) -> None:
        """Print a line that stays."""
        self.console.print(escape(text), highlight=False, soft_wrap=True)

    def begin(self, points: int, weight: float, doing: str = "measuring", unit: str = "points") -> None:
        """Start counting `points` points, whose weights add up to `weight`; `doing` and `unit` name them."""
        self.end()
        self._total, self._done = points, 0
        self._weight_total, self._weight_done = weight, 0.0
        self._began = self._clock()
        if self.console.is_terminal and not self.console.is_dumb_terminal and points:
            self._bar = Bar(
                TextColumn(doing),
                BarColumn(bar_width=30),
                TextColumn(f"{{task.completed:.0f}} of {{task.total:.0f}} {unit}"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
                console=self.console,
                transient=True,
            )
            self._task = self._bar.add_task("", total=points, left="")
            self._bar.start()

    def point(self, name: str, weight: float) -> None:
        """Count a point as done; a point that is measured again counts once."""
        with self._lock:
            self._done += weight > 0
            self._weight_done += weight
            elapsed = self._clock() - self._began
            remaining = self._weight_total - self._weight_done
            left = elapsed * remaining / self._weight_done if self._weight_done else 0.0
            if self._bar and self._task is not None:
                self._bar.update(self._task, completed=self._done, left=f"about {duration(left)} left")
            else:
                self.note(
                    f"  {self._done} of {self._total}: {name}; "
                    f"{duration(elapsed)} so far, about {duration(left)} left"
                )

    def end(self) -> None:
        """Stop counting, and remove the changing line."""
        if self._bar:
            self._bar.stop()
        self._bar = self._task = None
