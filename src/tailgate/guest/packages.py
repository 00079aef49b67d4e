# SPDX-License-Identifier: GPL-2.0-only
"""Debian's kernel packages, unpacked: image, type information, headers."""

import io
import lzma
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from tailgate.base.errors import UsageError
from tailgate.base.progress import Tell
from tailgate.guest.apt import run


def unpack(debs: Sequence[Path], release: str, into: Path, progress: Tell) -> None:
    """Unpack a kernel's packages, and derive the other files of a release's folder from them."""
    root = into / "root"
    root.mkdir(parents=True)
    progress(f"unpacking {len(debs)} packages")
    for deb in debs:
        run(["dpkg-deb", "--extract", str(deb), str(root)])
    if not (root / "lib").exists():  # later releases put everything below usr
        (root / "lib").symlink_to("usr/lib")
    relocate_headers(root, release)
    progress("extracting the image and its type information")
    image_of, elf = unpack_image(find_image(root, release).read_bytes())
    if image_of != release:
        raise UsageError(
            f"the image of {release} says that it is {image_of}: remove {into.parent} and try again"
        )
    (into / "vmlinux").write_bytes(elf)
    (into / "btf").write_bytes(elf_section(elf, ".BTF"))
    progress("indexing modules")
    run(["depmod", "--basedir", str(root), release])


def relocate_headers(root: Path, release: str) -> None:
    """Make the unpacked headers find each other where they are; they expect to be installed.

    The architecture's Makefile includes the common one by an absolute path below /usr/src; in the
    modules' folder two links point there. `scripts` and `tools` are relative links already.
    """
    makefile = root / "usr/src" / f"linux-headers-{release}" / "Makefile"
    text = makefile.read_text().replace("/usr/src/", "$(usr-src)/")
    makefile.write_text(f"usr-src := $(abspath $(dir $(lastword $(MAKEFILE_LIST)))..)\n{text}")
    for link in (root / "lib/modules" / release).iterdir():
        if link.is_symlink() and (to := str(link.readlink())).startswith("/usr/src/"):
            link.unlink()
            link.symlink_to(os.path.relpath(root.resolve() / to[1:], link.parent.resolve()))


def find_image(root: Path, release: str) -> Path:
    """The compressed image among unpacked packages; later releases have it beside the modules."""
    for image in (root / f"boot/vmlinuz-{release}", root / "lib/modules" / release / "vmlinuz"):
        if image.is_file():
            return image
    raise UsageError(f"Debian's packages of {release} hold no image where one is known to be")


def unpack_image(image: bytes) -> tuple[str, bytes]:
    """Release and uncompressed ELF of a bzImage (offsets: kernel's Documentation/arch/x86/boot.rst)."""
    if image[0x202:0x206] != b"HdrS":
        raise UsageError("the kernel image is no x86 bzImage: only amd64 guests are known")
    at = struct.unpack_from("<H", image, 0x20E)[0] + 0x200
    release = image[at : image.index(b"\0", at)].split()[0].decode()
    start = (image[0x1F1] + 1) * 512 + struct.unpack_from("<I", image, 0x248)[0]  # setup + payload_offset
    payload = image[start : start + struct.unpack_from("<I", image, 0x24C)[0]]
    # All but gzip are followed by the unpacked size, in four bytes that are not part of the format.
    if payload.startswith(b"\xfd7zXZ\0"):
        elf = lzma.LZMADecompressor().decompress(payload)
    elif payload.startswith(b"\x1f\x8b"):
        elf = zlib.decompressobj(31).decompress(payload)
    elif payload.startswith(b"\x28\xb5\x2f\xfd"):
        elf = run(["zstd", "-dcq"], payload[:-4])
    elif payload.startswith(b"\x02\x21\x4c\x18"):
        elf = run(["lz4", "-dcq"], payload[:-4])
    else:
        raise UsageError(f"the image of {release} is packed in an unknown way ({payload[:4].hex()})")
    return release, elf


def elf_section(elf: bytes, name: str) -> bytes:
    """The content of a section of an ELF file."""
    try:
        section = ELFFile(io.BytesIO(elf)).get_section_by_name(name)
    except ELFError as e:
        raise UsageError(f"the kernel image holds no ELF file ({e}): remove the kernel and try again") from e
    if section is None:
        raise UsageError(
            f"the kernel image has no {name}: it was built without what the modules' build checks"
        )
    return section.data()
