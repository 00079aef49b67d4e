# SPDX-License-Identifier: GPL-2.0-only
"""The messages that a guest sends while it runs, over virtio-serial into a file that grows.

It is a file and not a socket, because QEMU must never make the guest wait for a reader: virtual time would
then depend on the host.

    R SIZE NAME\\n    a record of the job (`emit`), followed by SIZE bytes
    D SIZE NAME\\n    a record of the machine itself, in the same form: the kernel's log
    M UPTIME NAME\\n  a mark, with the guest's seconds since boot
    T\\n              the virtual time limit is over; the guest leaves
    E CODE\\n         the job has ended with this exit code; nothing follows
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Record:
    """A file's content. `ours`: the machine's init sent it, not the job."""

    name: str
    content: bytes
    ours: bool = False


@dataclass(frozen=True)
class Mark:
    """The point in the job that was reached at a time, in seconds since the guest's boot."""

    name: str
    uptime_s: float


@dataclass(frozen=True)
class TimeOut:
    """The job reached its virtual time limit."""


@dataclass(frozen=True)
class End:
    """The job's exit code."""

    code: int


Message = Record | Mark | TimeOut | End


class Reader:
    """Turns the bytes of the channel into messages, as they arrive."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages that these bytes complete; an incomplete rest is kept for the next call.

        Raises ValueError for bytes that no guest of Tailgate sends.
        """
        self._pending += data
        messages = []
        while (message := self._next()) is not None:
            messages.append(message)
        return messages

    def _next(self) -> Message | None:
        end = self._pending.find(b"\n")
        if end < 0:
            return None
        line = self._pending[:end].decode()
        kind, _, rest = line.partition(" ")
        number, _, name = rest.partition(" ")
        content = b""
        message: Message
        match kind:
            case "R" | "D":
                last = end + 1 + int(number)
                if len(self._pending) < last:
                    return None
                content = bytes(self._pending[end + 1 : last])
                message = Record(name, content, ours=kind == "D")
                end = last - 1
            case "M":
                message = Mark(name, float(number))
            case "T":
                message = TimeOut()
            case "E":
                message = End(int(number))
            case _:
                raise ValueError(f"not a message of the guest: {line[:80]!r}")
        del self._pending[: end + 1]
        return message
