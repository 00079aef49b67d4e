# SPDX-License-Identifier: GPL-2.0-only
"""kernel/compat/btfcheck.c: what it reads from a kernel's types, and that a strange kernel is refused.

Small kernels are made by hand, in the format of Documentation/bpf/btf.rst; a real one is taken from the
cache, if there is one, and falsified in a single number.
"""

import os
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.programs import WATCHDOG_S

from tailgate.guest.kernels import Kernel, cached_kernels

KERNEL = Path(__file__).parents[2] / "kernel"
HEADER = struct.Struct("<HBBIIIII")
TYPE = struct.Struct("<III")
INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FUNC_PROTO = range(1, 14)
VOID = 0

FEATURES_OF_OLD_KERNELS = {"KAPI_ELV_FEATURES", "KAPI_GET_LLC_ID"}
#: Of policies for cgroups, which the kernels made here do not have.
FEATURES_OF_NEITHER = {"KAPI_BLKCG", "KAPI_BLKCG_INIT_BIND"}
FEATURES_OF_NEW_KERNELS = {
    "KAPI_INIT_SCHED_TAKES_EQ",
    "KAPI_DEPTH_UPDATED_TAKES_Q",
    "KAPI_ALLOC_SCHED_DATA",
    "KAPI_INSERT_FLAGS",
    "KAPI_ELV_ATTRS_CONST",
    "KAPI_EQ_TAGS",
    "KAPI_EQ_FLAGS",
    "KAPI_CACHED_RQS",
    "KAPI_DISK_LIMITS",
    "KAPI_LIMITS_FEATURES",
    "KAPI_HRTIMER_SETUP",
    "KAPI_PER_CPU_LLC_ID",
}


#: Every kernel has them.
FUNCTIONS = (
    "elv_register",
    "elv_unregister",
    "elv_rqhash_add",
    "elv_rqhash_del",
    "blk_mq_sched_try_merge",
    "blk_mq_sched_try_insert_merge",
    "blk_bio_list_merge",
    "blk_mq_run_hw_queue",
    "blk_mq_run_hw_queues",
    "blk_mq_free_request",
    "sbitmap_queue_get_shallow",
    "sbitmap_queue_min_shallow_depth",
)


class Btf:
    """Type information in the making; every method returns the id of a type."""

    def __init__(self) -> None:
        self.strings = bytearray(b"\0")
        self.types = bytearray()
        self.count = 0

    def _name(self, name: str) -> int:
        if not name:
            return 0
        self.strings += name.encode() + b"\0"
        return len(self.strings) - len(name) - 1

    def _add(self, name: str, kind: int, size_or_type: int, trailing: bytes = b"", length: int = 0) -> int:
        self.types += TYPE.pack(self._name(name), kind << 24 | length, size_or_type) + trailing
        self.count += 1
        return self.count

    def integer(self, name: str, size: int) -> int:
        return self._add(name, INT, size, struct.pack("<I", size * 8))

    def pointer(self, to: int) -> int:
        return self._add("", PTR, to)

    def const(self, of: int) -> int:
        return self._add("", CONST, of)

    def typedef(self, name: str, of: int) -> int:
        return self._add(name, TYPEDEF, of)

    def forward(self, name: str) -> int:
        return self._add(name, FWD, 0)

    def array(self, of: int, length: int) -> int:
        return self._add("", ARRAY, 0, struct.pack("<III", of, of, length))

    def structure(self, name: str, size: int, members: Sequence[tuple[str, int, int]]) -> int:
        """Members are name, type, and offset in bytes."""
        trailing = b"".join(struct.pack("<III", self._name(m), t, 8 * at) for m, t, at in members)
        return self._add(name, STRUCT, size, trailing, len(members))

    def structure_with_bits(self, name: str, size: int, members: Sequence[tuple[str, int, int, int]]) -> int:
        """Members are name, type, offset in bits, and width in bits or 0."""
        trailing = b"".join(struct.pack("<III", self._name(m), t, w << 24 | at) for m, t, at, w in members)
        number = self._add(name, STRUCT, size, trailing, len(members))
        info_at = len(self.types) - len(trailing) - 8
        (info,) = struct.unpack_from("<I", self.types, info_at)
        struct.pack_into("<I", self.types, info_at, info | 1 << 31)
        return number

    def enumeration(self, name: str, values: Mapping[str, int]) -> int:
        trailing = b"".join(struct.pack("<Ii", self._name(value), n) for value, n in values.items())
        return self._add(name, ENUM, 4, trailing, len(values))

    def prototype(self, result: int, *parameters: int) -> int:
        trailing = b"".join(struct.pack("<II", 0, p) for p in parameters)
        return self._add("", FUNC_PROTO, result, trailing, len(parameters))

    def function(self, name: str, prototype: int) -> int:
        return self._add(name, FUNC, prototype)

    def blob(self) -> bytes:
        sizes = (0, len(self.types), len(self.types), len(self.strings))
        return HEADER.pack(0xEB9F, 1, 0, HEADER.size, *sizes) + self.types + self.strings


def small_kernel(new: bool, without: str = "") -> bytes:
    """The structures that btfcheck asks for, cut down to what tells kernels apart; `without` one of them."""
    b = Btf()
    boolean = b.typedef("bool", b.integer("_Bool", 1))
    number = b.integer("int", 4)
    unsigned = b.integer("unsigned int", 4)
    word = b.integer("unsigned long", 8)
    queue = b.pointer(b.forward("request_queue"))
    hctx = b.pointer(b.forward("blk_mq_hw_ctx"))
    lists = b.pointer(b.forward("list_head"))
    kind = b.pointer(b.forward("elevator_type"))
    eq = b.pointer(b.forward("elevator_queue"))
    tags = b.pointer(b.forward("elevator_tags"))
    flags = b.typedef("blk_insert_t", unsigned)
    pointer = b.pointer(VOID)

    def structure(name: str, size: int, members: Sequence[tuple[str, int, int]]) -> None:
        if name != without:
            b.structure(name, size, members)

    operations = [
        ("init_sched", b.pointer(b.prototype(number, queue, eq if new else kind)), 0),
        ("depth_updated", b.pointer(b.prototype(VOID, queue if new else hctx)), 8),
        ("insert_requests", b.pointer(b.prototype(VOID, hctx, lists, flags if new else boolean)), 16),
    ]
    if new:
        operations.append(("alloc_sched_data", b.pointer(b.prototype(pointer, queue)), 24))
    structure("elevator_mq_ops", 8 * len(operations), operations)

    entry = b.forward("elv_fs_entry")
    attributes = ("elevator_attrs", b.pointer(b.const(entry) if new else entry), 8)
    structure(
        "elevator_type",
        24,
        [attributes, ("icq_cache_name", b.array(b.integer("char", 1), 22), 0)]
        + ([] if new else [("elevator_features", b.const(unsigned), 16)]),
    )
    if without != "elevator_queue":
        members = [("type", kind, 0, 0), ("elevator_data", pointer, 128 if new else 64, 0)]
        members += (
            [("et", tags, 64, 0), ("flags", word, 192, 0)] if new else [("registered", unsigned, 192, 1)]
        )
        b.structure_with_bits("elevator_queue", 32, members)
    structure("elv_fs_entry", 8, [("show", b.pointer(b.prototype(VOID)), 0)])
    cached = b.forward("rq_list" if new else "request")
    structure(
        "blk_mq_alloc_data",
        16,
        [("q", queue, 0), ("cached_rqs", b.pointer(cached), 8)]
        if new
        else [("q", queue, 0), ("cached_rq", b.pointer(b.pointer(cached)), 8)],
    )
    limits = b.structure("queue_limits", 4, [("features" if new else "misaligned", unsigned, 0)])
    disk = b.pointer(b.forward("gendisk"))
    second = [b.pointer(limits)] if new else []
    b.function("__blk_mq_alloc_disk", b.prototype(disk, pointer, *second, pointer))
    for name in FUNCTIONS if new else (*FUNCTIONS, "elevator_alloc"):
        if name != without:
            b.function(name, b.prototype(VOID, kind) if name == "elv_unregister" else b.prototype(VOID))
    if without != "elv_merge":
        b.enumeration("elv_merge", {"ELEVATOR_NO_MERGE": 0, "ELEVATOR_BACK_MERGE": 2})
    if new:
        b.function("hrtimer_setup", b.prototype(VOID))
        structure("cpuinfo_topology", 4, [("llc_id", unsigned, 0)])
    else:
        b.function("get_llc_id", b.prototype(unsigned, unsigned))
    return b.blob()


@pytest.fixture(scope="module")
def btfcheck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("btfcheck") / "btfcheck"
    sanitized = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    source = KERNEL / "compat/btfcheck.c"
    subprocess.run(
        ["gcc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", *sanitized, "-o", program, source], check=True
    )
    return program


@dataclass(frozen=True)
class Checked:
    status: int
    said: str
    features: dict[str, str]
    asserts: str


def check(btfcheck: Path, blob: bytes | None, folder: Path) -> Checked:
    """Run btfcheck on a blob, or on a file that is not there."""
    source = folder / "btf"
    if blob is not None:
        source.write_bytes(blob)
    done = subprocess.run(
        [btfcheck, source, folder],
        capture_output=True,
        text=True,
        timeout=WATCHDOG_S,
        env={"ASAN_OPTIONS": "detect_leaks=0"},  # it never frees
    )
    if done.returncode:
        return Checked(done.returncode, done.stderr, {}, "")
    defines = (folder / "kbtf_features.h").read_text().splitlines()
    features = {line.split()[1]: line.split()[2] for line in defines if line.startswith("#define")}
    return Checked(0, done.stderr, features, (folder / "kbtf_asserts.h").read_text())


@pytest.mark.parametrize("new", [False, True], ids=["old", "new"])
def test_features_are_decided_from_types(btfcheck: Path, tmp_path: Path, new: bool) -> None:
    checked = check(btfcheck, small_kernel(new), tmp_path)
    assert checked.status == 0, checked.said
    features = {name: value for name, value in checked.features.items() if name.startswith("KAPI_")}
    assert set(features) == FEATURES_OF_OLD_KERNELS | FEATURES_OF_NEW_KERNELS | FEATURES_OF_NEITHER
    present = {name for name, value in features.items() if value == "1"}
    assert present == (FEATURES_OF_NEW_KERNELS if new else FEATURES_OF_OLD_KERNELS)


def test_layout_is_asserted(btfcheck: Path, tmp_path: Path) -> None:
    asserts = check(btfcheck, small_kernel(new=False), tmp_path).asserts
    assert '_Static_assert(sizeof(struct elevator_queue) == 32, "size of struct elevator_queue");' in asserts
    assert "offsetof(struct elevator_queue, elevator_data) == 8," in asserts
    assert "registered" not in asserts, "a bit field has no offset in C"
    compact = asserts.replace(" ", "")
    assert "typeof(((structelevator_type*)0)->icq_cache_name),char[22])" in compact
    assert "typeof(((structelevator_type*)0)->elevator_features),constunsignedint)" in compact
    assert "int(*)(structrequest_queue*,structelevator_type*))" in compact
    assert "externvoidelv_unregister(structelevator_type*);" in compact
    assert "externvoidelevator_alloc(void);" in compact
    assert '_Static_assert(ELEVATOR_BACK_MERGE == 2, "ELEVATOR_BACK_MERGE in enum elv_merge");' in asserts


def test_what_is_written_is_c(btfcheck: Path, tmp_path: Path) -> None:
    """The assertions hold for the structures that they were made from."""
    assert check(btfcheck, small_kernel(new=True), tmp_path).status == 0
    source = """
    #include <stdbool.h>
    #include <stddef.h>
    struct request_queue; struct blk_mq_hw_ctx; struct list_head; struct elevator_queue; struct elevator_tags;
    struct rq_list; struct elevator_type;
    typedef unsigned int blk_insert_t;
    enum elv_merge { ELEVATOR_NO_MERGE, ELEVATOR_FRONT_MERGE, ELEVATOR_BACK_MERGE };
    struct elevator_mq_ops {
        int (*init_sched)(struct request_queue *, struct elevator_queue *);
        void (*depth_updated)(struct request_queue *);
        void (*insert_requests)(struct blk_mq_hw_ctx *, struct list_head *, blk_insert_t);
        void *(*alloc_sched_data)(struct request_queue *);
    };
    struct elv_fs_entry { void (*show)(void); };
    struct elevator_type {
        union { char icq_cache_name[22]; struct { long gap; const struct elv_fs_entry *elevator_attrs; }; };
    };
    struct elevator_queue { struct elevator_type *type; struct elevator_tags *et; void *elevator_data;
        unsigned long flags; };
    struct blk_mq_alloc_data { struct request_queue *q; struct rq_list *cached_rqs; };
    #include "kbtf_features.h"
    #include "kbtf_asserts.h"
    """
    (tmp_path / "all.c").write_text(source)
    subprocess.run(["gcc", "-fsyntax-only", "-Wall", "-Werror", tmp_path / "all.c"], check=True)
    (tmp_path / "all.c").write_text(source.replace("struct elevator_tags *et;", "", 1))
    failed = subprocess.run(["gcc", "-fsyntax-only", tmp_path / "all.c"], capture_output=True, text=True)
    assert "offset of elevator_data in struct elevator_queue" in failed.stderr
    for known, here, what in (
        ("ELEVATOR_FRONT_MERGE, ", "", "ELEVATOR_BACK_MERGE in enum elv_merge"),
        ("typedef unsigned int", "typedef unsigned short", "type of blk_insert_t"),
    ):
        (tmp_path / "all.c").write_text(source.replace(known, here, 1))
        failed = subprocess.run(["gcc", "-fsyntax-only", tmp_path / "all.c"], capture_output=True, text=True)
        assert what in failed.stderr


@pytest.mark.parametrize(
    "name", ["elevator_mq_ops", "elevator_type", "elevator_queue", "elv_fs_entry", "blk_mq_alloc_data"]
)
def test_a_missing_structure_is_named(btfcheck: Path, tmp_path: Path, name: str) -> None:
    checked = check(btfcheck, small_kernel(new=True, without=name), tmp_path)
    assert (checked.status, checked.said) == (2, f"tailgate: the kernel has no struct {name}\n")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_missing_function_is_named(btfcheck: Path, tmp_path: Path, name: str) -> None:
    checked = check(btfcheck, small_kernel(new=True, without=name), tmp_path)
    assert (checked.status, checked.said) == (
        2,
        f"tailgate: the kernel's type information has no {name}()\n",
    )


def test_a_function_is_asked_for_where_it_is_called(btfcheck: Path, tmp_path: Path) -> None:
    checked = check(btfcheck, small_kernel(new=False, without="elevator_alloc"), tmp_path)
    assert "elevator_alloc()" in checked.said
    assert check(btfcheck, small_kernel(new=True), tmp_path).status == 0


def test_a_missing_enum_is_named(btfcheck: Path, tmp_path: Path) -> None:
    checked = check(btfcheck, small_kernel(new=True, without="elv_merge"), tmp_path)
    assert (checked.status, checked.said) == (2, "tailgate: the kernel has no enum elv_merge\n")


def test_no_file(btfcheck: Path, tmp_path: Path) -> None:
    checked = check(btfcheck, None, tmp_path)
    assert (checked.status, checked.said) == (2, f"tailgate: cannot read {tmp_path / 'btf'}\n")


@pytest.mark.parametrize("blob", [b"", b"\x9f\xeb", b"\x7fELF" + bytes(100), small_kernel(True)[:-1]])
def test_what_is_not_type_information_is_refused(btfcheck: Path, tmp_path: Path, blob: bytes) -> None:
    checked = check(btfcheck, blob, tmp_path)
    assert (checked.status, checked.said) == (
        2,
        f"tailgate: {tmp_path / 'btf'} holds no kernel type information (BTF)\n",
    )


def test_cut_anywhere_it_is_refused(btfcheck: Path, tmp_path: Path) -> None:
    blob = small_kernel(new=True)
    for length in (*range(HEADER.size + 2), *range(HEADER.size, len(blob), 97)):
        checked = check(btfcheck, blob[:length], tmp_path)
        assert checked.status == 2
        assert len(checked.said.splitlines()) == 1, f"cut to {length} bytes: {checked.said}"


def trailing_bytes(kind: int, length: int) -> int:
    """Bytes behind a type's record; kinds above 13 are VAR 14, DATASEC 15, DECL_TAG 17, ENUM64 19."""
    each = {STRUCT: 12, UNION: 12, 15: 12, 19: 12, ENUM: 8, FUNC_PROTO: 8}
    fixed = {INT: 4, 14: 4, 17: 4, ARRAY: 12}
    return each.get(kind, 0) * length + fixed.get(kind, 0)


def find(blob: bytes, sought: int, name: str) -> int:
    """Where the record of a type of this kind and name begins."""
    _, _, _, header, types, types_size, strings, strings_size = HEADER.unpack_from(blob)
    names = blob[header + strings : header + strings + strings_size]
    wanted = {at + 1 for at in range(len(names)) if names.startswith(b"\0" + name.encode() + b"\0", at)}
    at: int = header + types
    while at < header + types + types_size:
        name_at, info, _ = TYPE.unpack_from(blob, at)
        kind = info >> 24 & 0x1F
        if kind == sought and name_at in wanted:
            return at
        at += TYPE.size + trailing_bytes(kind, info & 0xFFFF)
    raise AssertionError(f"no {name}")


def with_another_size(blob: bytes) -> bytes:
    changed = bytearray(blob)
    at = find(blob, STRUCT, "elevator_type") + 8
    (size,) = struct.unpack_from("<I", blob, at)
    struct.pack_into("<I", changed, at, size + 8)
    return bytes(changed)


def with_another_offset(blob: bytes) -> bytes:
    """The third member, icq_size, is moved."""
    changed = bytearray(blob)
    at = find(blob, STRUCT, "elevator_type") + TYPE.size + 2 * 12 + 8
    (offset,) = struct.unpack_from("<I", blob, at)
    struct.pack_into("<I", changed, at, offset + 64)
    return bytes(changed)


def with_other_arguments(blob: bytes) -> bytes:
    """elv_rqhash_add() is called like elv_unregister()."""
    changed = bytearray(blob)
    at = find(blob, FUNC, "elv_unregister") + 8
    (prototype,) = struct.unpack_from("<I", blob, at)
    struct.pack_into("<I", changed, find(blob, FUNC, "elv_rqhash_add") + 8, prototype)
    return bytes(changed)


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`make -C kernel`, as a user without a terminal."""
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    env["LANG"] = env["LC_ALL"] = "C.UTF-8"  # in which compilers quote with other characters
    command = ["make", "-s", "-C", str(KERNEL), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WATCHDOG_S, env=env, check=False)


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What make printed, less its own lines."""
    lines = (done.stdout + done.stderr).splitlines()
    return [line for line in lines if not line.startswith(("make", "Makefile:"))]


def headers_of_nobody(folder: Path) -> Path:
    (folder / "include/generated").mkdir(parents=True)
    (folder / "Makefile").touch()
    (folder / "include/generated/utsrelease.h").write_text('#define UTS_RELEASE "9.1.0"\n')
    return folder


def test_a_refused_kernel_is_refused_again(tmp_path: Path) -> None:
    """What was written before the refusal does not count as made."""
    headers = headers_of_nobody(tmp_path / "headers")
    (tmp_path / "btf").write_bytes(small_kernel(new=True, without="elv_merge"))
    for _ in range(2):
        done = make(f"KDIR={headers}", f"BTF={tmp_path / 'btf'}", f"OUT={tmp_path / 'out'}")
        assert done.returncode != 0
        assert said(done) == ["tailgate: the kernel has no enum elv_merge"]


def test_headers_that_are_not_installed_are_named(tmp_path: Path) -> None:
    done = make(f"KDIR={tmp_path / 'no'}", f"OUT={tmp_path / 'out'}")
    assert done.returncode != 0
    [line] = said(done)
    assert line.startswith(f"tailgate: no kernel headers in {tmp_path / 'no'}: install linux-headers-")
    assert not (tmp_path / "out").exists()


def test_type_information_of_another_kernel_is_not_taken(tmp_path: Path) -> None:
    """Without BTF= the headers' own vmlinux is read; nothing else will do for a kernel that does not run."""
    headers = headers_of_nobody(tmp_path / "headers")
    done = make(f"KDIR={headers}", f"OUT={tmp_path / 'out'}")
    assert done.returncode != 0
    assert said(done) == [
        f"tailgate: no type information of the kernel in {headers}: name a file that has it, as BTF=vmlinux"
    ]
    (headers / "vmlinux").write_bytes(small_kernel(new=True, without="elv_merge"))
    done = make(f"KDIR={headers}", f"OUT={tmp_path / 'out'}")
    assert said(done) == ["tailgate: the kernel has no enum elv_merge"]


def test_type_information_in_an_elf_file(btfcheck: Path, tmp_path: Path) -> None:
    """As in the vmlinux of Debian's headers."""
    (tmp_path / "btf").write_bytes(small_kernel(new=True))
    (tmp_path / "empty.c").write_text("")
    compiled, wrapped = str(tmp_path / "empty.o"), str(tmp_path / "vmlinux")
    subprocess.run(["gcc", "-c", "-o", compiled, tmp_path / "empty.c"], check=True)
    subprocess.run(["objcopy", "--add-section", f".BTF={tmp_path / 'btf'}", compiled, wrapped], check=True)
    raw = check(btfcheck, small_kernel(new=True), tmp_path)
    assert check(btfcheck, Path(wrapped).read_bytes(), tmp_path) == raw
    for cut in (0, 8, 64, 100):
        blob = Path(wrapped).read_bytes()
        assert check(btfcheck, blob[: len(blob) - cut - 1], tmp_path).status in (0, 2)


def test_a_kernel_of_32_bits_is_refused(tmp_path: Path) -> None:
    """Two words of a request have 16 bytes on a kernel of 64 bits only."""
    lines = (KERNEL / "compat/elevator.h").read_text().splitlines()
    at = lines.index("#if BITS_PER_LONG != 64")

    def compiled(bits: int) -> subprocess.CompletedProcess[str]:
        source = tmp_path / "words.c"
        source.write_text("\n".join([f"#define BITS_PER_LONG {bits}", *lines[at : at + 3]]) + "\n")
        env = {**os.environ, "LANG": "C"}
        return subprocess.run(
            ["gcc", "-fsyntax-only", source], capture_output=True, text=True, check=False, env=env
        )

    assert compiled(64).returncode == 0
    (tmp_path / "log").write_text(compiled(32).stderr)
    explained = subprocess.run(
        [KERNEL / "compat/explain", tmp_path / "log", "9.1.0"], capture_output=True, text=True, check=True
    )
    assert explained.stdout == (
        "tailgate: refused to build for kernel 9.1.0: Tailgate needs a kernel of 64 bits\n"
    )


@pytest.fixture(params=["stable", "backports"])
def kernel(request: pytest.FixtureRequest) -> Kernel:
    kernels = cached_kernels()
    if request.param not in kernels:
        pytest.skip(f"the {request.param} kernel is not in the cache")
    return kernels[request.param]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (with_another_size, "size of struct elevator_type"),
        (with_another_offset, "offset of icq_size in struct elevator_type"),
        (with_other_arguments, "arguments of elv_rqhash_add()"),
    ],
    ids=["size", "offset", "arguments"],
)
def test_a_kernel_with_another_layout_is_refused(
    kernel: Kernel, tmp_path: Path, change: Callable[[bytes], bytes], what: str
) -> None:
    changed = tmp_path / "btf"
    changed.write_bytes(change(kernel.btf.read_bytes()))
    done = make(f"KDIR={kernel.headers}", f"BTF={changed}", f"OUT={tmp_path / 'out'}")
    assert done.returncode != 0
    assert said(done) == [
        f"tailgate: refused to build for kernel {kernel.release}: its block layer is not the one this source "
        f"knows ({what} differs)"
    ]
    assert not list((tmp_path / "out").glob("*.ko"))
