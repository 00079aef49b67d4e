# SPDX-License-Identifier: GPL-2.0-only
"""The guest's archives: what is in them, and that equal input gives equal bytes."""

import lzma
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tailgate.base.errors import UsageError
from tailgate.guest import cpio, initramfs, programs
from tailgate.guest.kernels import Kernel

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
        "deep/er/file": cpio.file(b"content"),
        "program": cpio.file(b"#!/bin/sh\n", executable=True),
        "link": cpio.link("deep/er/file"),
        "empty": cpio.FOLDER,
    }
    archive = cpio.archive(tree)
    assert archive == cpio.archive(dict(reversed(tree.items())))
    assert len(archive) % 512 == 0
    unpack = ["cpio"] if shutil.which("cpio") else ["busybox", "cpio"]
    subprocess.run([*unpack, "-id"], input=archive, cwd=tmp_path, check=True, capture_output=True)
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


def test_system_has_what_init_calls() -> None:
    tree = initramfs.system()
    assert stat.S_IMODE(tree["init"].mode) == 0o755
    assert {"bin/emit", "bin/mark", "bin/idle_sample", "bin/sh", "sbin/modprobe"} <= tree.keys()
    assert tree["bin/sh"].content == b"busybox"


def test_missing_program_is_the_users_error() -> None:
    with pytest.raises(UsageError, match="no-such-program is missing"):
        programs.tree(["no-such-program"])


def test_programs_come_with_their_libraries() -> None:
    tree = programs.tree(["mke2fs"])
    assert tree["bin/mke2fs"].content == programs.find("mke2fs").read_bytes()
    assert any(Path(path).name.startswith("libc.so") for path in tree)


def test_what_is_no_elf_file_names_no_libraries(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n")
    assert programs._named_libraries(tmp_path / "script") == []


def test_what_a_program_needs_of_a_library() -> None:
    """As the linker's own tools say; the versions are those of the C library's interface."""
    mke2fs = programs.find("mke2fs")
    assert "libc.so.6" in programs._named_libraries(mke2fs)
    assert re.fullmatch(r"GLIBC_[\d.]+", programs._needed(mke2fs)["malloc"])
    libc = next(path for name, path in programs._loaded(mke2fs).items() if name == "libc.so.6")
    assert "malloc" in programs._defined(libc)
    assert "malloc" not in programs._defined(mke2fs)


LIBRARY = "int rbd_a(void) { return 1; }\nint rbd_b(void) { return 2; }\nint rbd_c(void) { return 3; }\n"
VERSIONS = "V1 { global: rbd_a; local: *; };\nV2 { global: rbd_b; };\n"
PROGRAM = (
    "int rbd_a(void), rbd_b(void);\nint main(int n, char **v) { return n > 1 ? rbd_a() + rbd_b() : 0; }\n"
)


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_libraries_of_no_use_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is linked with a client of network storage starts without the real one."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("library.c", LIBRARY), ("versions", VERSIONS), ("program.c", PROGRAM)):
        Path(name).write_text(text)
    for command in (
        "gcc -shared -fPIC -Wl,-soname,librbd.so.1 -Wl,--version-script=versions -o librbd.so.1 library.c",
        f"gcc -o program program.c librbd.so.1 -Wl,-rpath,{tmp_path} -Wl,--enable-new-dtags",
    ):
        subprocess.run(command.split(), check=True)
    program, real = tmp_path / "program", tmp_path / "librbd.so.1"
    assert subprocess.run([program, "call"], check=False).returncode == 3

    monkeypatch.setenv("TAILGATE_CACHE", str(tmp_path / "cache"))
    found = programs.libraries(program)
    stand_in = found[str(real)]
    assert stand_in != real
    environment = os.environ | {"LD_LIBRARY_PATH": str(stand_in.parent), "LD_BIND_NOW": "1"}
    assert subprocess.run([program], check=False, env=environment).returncode == 0
    assert subprocess.run([program, "call"], check=False, env=environment).returncode < 0
    assert programs.libraries(program) == found


def test_without_a_compiler_the_real_libraries_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(programs, "_compile", lambda *_: False)
    assert all(str(path) == at for at, path in programs.libraries(programs.find("fio")).items())
