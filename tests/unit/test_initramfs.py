# SPDX-License-Identifier: GPL-2.0-only
"""The guest's archives: what is in them, and that equal input gives equal bytes."""

import lzma
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tailgate.errors import UsageError
from tailgate.kernels import Kernel
from tailgate.vm import initramfs

DEP = """\
kernel/block/bfq.ko:
kernel/fs/ext4/ext4.ko: kernel/lib/crc16.ko kernel/fs/jbd2/jbd2.ko
kernel/fs/jbd2/jbd2.ko:
kernel/lib/crc16.ko:
kernel/block/kyber-iosched.ko:
"""
BUILTIN = "kernel/block/mq-deadline.ko\n"


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    """A kernel with one packed module and one that needs it."""
    folder = tmp_path / "root/lib/modules/9.9"
    (folder / "kernel").mkdir(parents=True)
    (folder / "kernel/a-b.ko.xz").write_bytes(lzma.compress(b"module a_b"))
    (folder / "kernel/c.ko").write_bytes(b"module c")
    (folder / "modules.dep").write_text(
        "kernel/a-b.ko.xz:\nkernel/c.ko: kernel/a-b.ko.xz\nkernel/d.ko:\nkernel/f.ko:\n"
    )
    (folder / "modules.builtin").write_text("kernel/e.ko\n")
    (folder / "modules.alias").write_text("alias fs-c c\nalias fs-d d\nalias old-name a_b\nalias soft f\n")
    (folder / "modules.softdep").write_text("# comment\nsoftdep d pre: soft post: hard\n")
    (folder / "kernel/d.ko").write_bytes(b"module d")
    (folder / "kernel/f.ko").write_bytes(b"module f")
    root = tmp_path / "root"
    return Kernel("stable", "9.9", root, tmp_path / "vmlinux", tmp_path / "btf", root / "headers")


@pytest.mark.skipif(not shutil.which("cpio") and not shutil.which("busybox"), reason="needs cpio or busybox")
def test_archive_is_read_by_cpio(tmp_path: Path) -> None:
    tree = {
        "deep/er/file": initramfs.file(b"content"),
        "program": initramfs.file(b"#!/bin/sh\n", executable=True),
        "link": initramfs.link("deep/er/file"),
        "empty": initramfs.FOLDER,
    }
    archive = initramfs.archive(tree)
    assert archive == initramfs.archive(dict(reversed(tree.items())))
    assert len(archive) % 512 == 0
    cpio = ["cpio"] if shutil.which("cpio") else ["busybox", "cpio"]
    subprocess.run([*cpio, "-id"], input=archive, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "link").read_text() == "content"
    assert stat.S_IMODE((tmp_path / "program").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "deep/er/file").stat().st_mode) == 0o644
    assert (tmp_path / "empty").is_dir()


def test_closure_takes_what_is_needed_and_nothing_built_in() -> None:
    assert list(initramfs.closure(DEP, BUILTIN, ["ext4", "kyber_iosched", "mq-deadline"])) == [
        "kernel/block/kyber-iosched.ko",
        "kernel/fs/ext4/ext4.ko",
        "kernel/fs/jbd2/jbd2.ko",
        "kernel/lib/crc16.ko",
    ]


def test_unknown_module_is_the_users_error() -> None:
    with pytest.raises(UsageError, match="no module ext5"):
        initramfs.closure(DEP, BUILTIN, ["ext5"])


def test_stock_modules_come_unpacked_with_indexes_of_their_own(kernel: Kernel) -> None:
    tree = initramfs.stock_modules(kernel, ["c", "e"])
    at = "lib/modules/9.9/"
    assert tree[f"{at}kernel/a-b.ko"].content == b"module a_b"
    assert tree[f"{at}kernel/c.ko"].content == b"module c"
    assert tree[f"{at}modules.dep"].content == b"kernel/a-b.ko: \nkernel/c.ko: kernel/a-b.ko\n"
    assert tree[f"{at}modules.alias"].content == b"alias fs-c c\nalias old-name a_b\n"
    assert tree[f"{at}modules.builtin"].content == b"kernel/e.ko\n"


def test_what_modules_ask_for_softly_comes_too(kernel: Kernel) -> None:
    tree = initramfs.stock_modules(kernel, ["d"])
    assert tree["lib/modules/9.9/kernel/f.ko"].content == b"module f"
    assert tree["lib/modules/9.9/modules.alias"].content == b"alias fs-d d\nalias soft f\n"


def test_job_keeps_execute_permission_of_files(tmp_path: Path) -> None:
    program, module = tmp_path / "program", tmp_path / "k2.ko"
    program.write_bytes(b"x")
    program.chmod(0o755)
    module.write_bytes(b"y")
    tree = initramfs.job("echo\n", {"/bin/program": program, "lab/data": b"z"}, [module])
    assert stat.S_IMODE(tree["bin/program"].mode) == 0o755
    assert stat.S_IMODE(tree["lab/data"].mode) == 0o644
    assert tree["lib/modules/extra/k2.ko"].content == b"y"
    assert tree["root/job"].content == b"echo\n"


def test_base_is_cached_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILGATE_CACHE", str(tmp_path))
    first = initramfs.base(())
    made = first.stat().st_mtime_ns
    assert initramfs.base(()) == first
    assert first.stat().st_mtime_ns == made
    content = first.read_bytes()
    first.unlink()
    assert initramfs.base(()).read_bytes() == content
    assert initramfs.base(("true",)) != first


def test_missing_program_is_the_users_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILGATE_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match="no-such-program is missing"):
        initramfs.base(("no-such-program",))
