# SPDX-License-Identifier: GPL-2.0-only
"""Archives that the kernel unpacks as its first file system, in cpio's format newc.

An archive depends only on names and contents: entries are sorted and have no times or owners. In virtual time
the archive's bytes change the last digits of figures. Format: the kernel's
Documentation/driver-api/early-userspace/buffer-format.rst.
"""

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Node:
    """A file, folder or symbolic link: its content, and its mode as in stat(2)."""

    mode: int
    content: bytes = b""


Tree = dict[str, Node]  # by path, without a leading slash

FOLDER = Node(stat.S_IFDIR | 0o755)


def file(content: bytes, executable: bool = False) -> Node:
    """A regular file."""
    return Node(stat.S_IFREG | (0o755 if executable else 0o644), content)


def link(target: str) -> Node:
    """A symbolic link."""
    return Node(stat.S_IFLNK | 0o777, target.encode())


def archive(tree: Mapping[str, Node]) -> bytes:
    """A newc archive of these files and of their folders."""
    whole = dict(tree)
    for path in tree:
        for parent in Path(path).parents:
            if str(parent) != ".":
                whole.setdefault(str(parent), FOLDER)
    out = bytearray()
    for number, path in enumerate(sorted(whole), 1):
        _append(out, number, path, whole[path])
    _append(out, 0, "TRAILER!!!", Node(0))
    out += bytes(-len(out) % 512)
    return bytes(out)


def _append(out: bytearray, number: int, path: str, node: Node) -> None:
    name = path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(node.mode) else 1
    # inode, mode, uid, gid, links, time, size, device twice, name's size, checksum
    fields = (number, node.mode, 0, 0, links, 0, len(node.content), 0, 0, 0, 0, len(name), 0)
    out += b"070701" + b"".join(b"%08X" % f for f in fields) + name
    out += bytes(-len(out) % 4)
    out += node.content
    out += bytes(-len(out) % 4)
