# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate watch`: adjust a drive's knobs while its load changes."""

from typing import Annotated

import typer

from tailgate.base.command import FAILED, OK, application, epilog, flag

app = application()

EXAMPLES = """
tailgate watch nvme0n1 --keep "read.lat_us.mean <= 600"
tailgate watch nvme0n1 --keep "read.lat_us.mean <= 600" \\
    --move inflight_max=2..64 --seconds 60
tailgate simulate own.fio --drive 980pro --scheduler k2 \\
    --watch "read.lat_us.mean <= 600"     # rehearse it first
"""


@app.command(epilog=epilog(EXAMPLES, "the drive, its scheduler or a knob was changed by another program"))
def watch(
    drive: Annotated[str, typer.Argument(metavar="DRIVE", help="The drive, as in /dev: nvme0n1.")],
    keep: Annotated[
        str,
        typer.Option(
            metavar='"read.lat_us.mean <= US"',
            help="What is kept: the mean latency of reads, of writes (write.lat_us.mean), or with k2 of "
            "real-time requests (rt.lat_us.mean), in the block layer. All else gets as much throughput as "
            "that allows.",
        ),
    ],
    move: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KNOB=FROM..TO",
            help="A knob that moves, and its limits: its number for the lowest latency, and its number for "
            "the highest throughput. Several move together.",
            show_default="kyber: read_lat_nsec=50000..100000000 write_lat_nsec=100000000..50000; "
            "k2: inflight_max=1..256; mqfq: d=1..256 t_kib=4..1024",
        ),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(min=0, metavar="S", help="Stop after this time.", show_default="until Ctrl-C"),
    ] = 0.0,
    json: Annotated[bool, flag("--json", "One JSON object on standard output, at the end.")] = False,
) -> int:
    """Adjust a scheduler's knobs while the load changes, so that a latency is kept.

    Several times a second it reads what the block layer counts in
    /sys/block/DRIVE/stat and inflight, or what k2 counts of real-time requests,
    and moves the knobs of the scheduler that the drive has. Nothing is read
    from the drive itself, or written to it. At the end, also after Ctrl-C,
    SIGTERM or the loss of the terminal, the knobs are as they were.
    """
    import json as json_format
    import sys
    import time
    from dataclasses import asdict

    from tailgate.show.moves import moved
    from tailgate.watch import command, meter, way
    from tailgate.watch.queue import LostError, Queue
    from tailgate.watch.stop import StopSignals

    kept = meter.keep(keep, "--keep")
    end = time.monotonic() + seconds if seconds else float("inf")

    def tell(one: command.Move) -> None:
        which = meter.CALLED[kept.requests]
        found = f"{which} take {one.mean_us:.0f} us" if one.mean_us else f"no {which}"
        print(f"{one.at_s:8.2f} s: {found}: {command.in_words(one.knobs)}", file=sys.stderr)

    try:
        queue = Queue(drive)
        chosen = way.way_of(queue.scheduler, move or (), "--move")
        with StopSignals() as signals:

            def wait(seconds: float) -> bool:
                return signals.wait(seconds) or time.monotonic() >= end

            done = command.watch(queue, kept, chosen, tell, time.monotonic, wait)
    except LostError as e:
        print(f"tailgate: {e}", file=sys.stderr)
        return FAILED
    if json:
        answer = {
            "drive": queue.name,
            "scheduler": queue.scheduler,
            "keep": asdict(kept),
            "moves": [asdict(m) for m in done.moves],
            "restored": dict(done.restored),
        }
        print(json_format.dumps(answer), flush=True)  # the terminal, to which the rest goes, may be lost
    print(f"{moved(done.moves)}; put back: {command.in_words(done.restored)}", file=sys.stderr)
    return OK
