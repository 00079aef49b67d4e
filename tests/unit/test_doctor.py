# SPDX-License-Identifier: GPL-2.0-only
"""The doctor's judgements, on a made-up machine below a folder."""

from pathlib import Path

import pytest

from tailgate.guest import host, kvm
from tailgate.guest.kernels import Kernel


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_kvm_can_be_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With TAILGATE_KVM=0 a machine whose KVM works has virtual time."""
    monkeypatch.setattr(kvm, "DEVICE", tmp_path)
    monkeypatch.setattr(kvm, "boots", lambda: True)
    monkeypatch.setenv("TAILGATE_CACHE", str(tmp_path))
    assert kvm.works()
    monkeypatch.setenv("TAILGATE_KVM", "0")
    assert not kvm.works()


def test_doctor_tries_kvm_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A host that was too busy the first time need not be rebooted."""
    monkeypatch.setattr(kvm, "DEVICE", tmp_path)
    monkeypatch.setenv("TAILGATE_CACHE", str(tmp_path))
    monkeypatch.setattr(kvm, "boots", lambda: False)
    assert not kvm.works()
    monkeypatch.setattr(kvm, "boots", lambda: True)
    assert not kvm.works()
    assert "a guest boots under it" in host.kvm_finding().text
    assert kvm.works()


@pytest.mark.parametrize(
    ("printed", "status"),
    [
        ("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)", "ok"),
        ("QEMU emulator version 11.1.0", "ok"),
        ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)", "missing"),
        ("something else", "missing"),
        (None, "missing"),
    ],
)
def test_qemu_has_to_be_recent(printed: str | None, status: str) -> None:
    finding = host.qemu(printed)
    assert finding.status == status
    assert (finding.fix == "") == (status == "ok")


def test_a_program_that_is_not_there_has_a_way_out() -> None:
    missing = host.program("busybox", None, "busybox-static")
    assert (missing.status, missing.fix) == ("missing", "apt-get install busybox-static")
    there = host.program("busybox", "BusyBox v1.35.0", "busybox-static")
    assert (there.status, there.fix) == ("ok", "")


def test_a_guest_that_is_not_cached_is_fetched_later(tmp_path: Path) -> None:
    finding = host.guest("stable", None)
    assert finding.status == "warn"
    assert finding.fix.endswith("-m tailgate.guest.kernels stable")
    kernel = Kernel("stable", "6.1.0-1-amd64", tmp_path, tmp_path, tmp_path, tmp_path)
    assert (host.guest("stable", kernel).status, host.guest("stable", kernel).fix) == ("ok", "")


def test_cache_may_not_exist_yet_and_needs_room(tmp_path: Path) -> None:
    inside = tmp_path / "not/yet"
    assert host.cache_space(inside, lambda _: 2**40).status == "ok"
    assert host.cache_space(inside, lambda _: 2**20).status == "warn"


def test_kernel_without_modules(tmp_path: Path) -> None:
    findings = list(host.this_kernel(tmp_path, "9.1"))
    assert [f.status for f in findings] == ["ok", "missing"]


def test_kernel_that_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    write(
        tmp_path,
        {"proc/modules": "", "lib/modules/9.1/build/Makefile": "", "sys/kernel/btf/vmlinux": "\x9f"},
    )
    assert {f.status for f in host.this_kernel(tmp_path, "9.1")} == {"ok"}


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ({"sys/module/module/parameters/sig_enforce": "Y\n"}, "only signed"),
        ({"sys/kernel/security/lockdown": "none [integrity] confidentiality\n"}, "integrity"),
        ({"proc/sys/kernel/modules_disabled": "1\n"}, "modules_disabled"),
    ],
)
def test_kernel_that_refuses_our_modules(tmp_path: Path, files: dict[str, str], word: str) -> None:
    finding = host.loading(write(tmp_path, files))
    assert finding.status == "missing"
    assert word in finding.text


def test_secure_boot(tmp_path: Path) -> None:
    assert host.secure_boot(tmp_path) is None
    variable = tmp_path / "sys/firmware/efi/efivars/SecureBoot-8be4df61"
    variable.parent.mkdir(parents=True)
    variable.write_bytes(b"\6\0\0\0\1")
    assert host.secure_boot(tmp_path) is True
    variable.write_bytes(b"\6\0\0\0\0")
    assert host.secure_boot(tmp_path) is False


def test_drives_are_those_with_hardware_queues(tmp_path: Path) -> None:
    real, loop = tmp_path / "sys/devices/pci/nvme0n1", tmp_path / "sys/devices/virtual/block/loop0"
    for block in (real, loop):
        write(
            block,
            {
                "queue/scheduler": "[none] mq-deadline kyber\n",
                "queue/nr_requests": "1023\n",
                "queue/rotational": "0\n",
                "size": "1953525168\n",
            },
        )
    write(real, {"device/model": "Some SSD   \n", "mq/0/x": "", "mq/1/x": ""})
    (tmp_path / "sys/block").mkdir()
    for block in (real, loop):
        (tmp_path / "sys/block" / block.name).symlink_to(block)
    (drive,) = host.drives(tmp_path)
    assert drive == host.BlockDevice(
        "nvme0n1", "Some SSD", 1000.2, False, "none", ("none", "mq-deadline", "kyber"), 2, 1023
    )


def test_names_that_are_no_utf_8_are_shown_all_the_same(tmp_path: Path) -> None:
    rules = tmp_path / "etc/udev/rules.d/60-io.rules"
    rules.parent.mkdir(parents=True)
    rules.write_bytes(b'# f\xfcr\nATTR{queue/scheduler}="bfq"')
    assert [rule for _, rule in host.scheduler_rules(tmp_path)] == ['ATTR{queue/scheduler}="bfq"']


def test_udev_rules_that_set_a_scheduler(tmp_path: Path) -> None:
    rule = 'ACTION=="add", KERNEL=="sd*", ATTR{queue/scheduler}="bfq"'
    write(
        tmp_path,
        {
            "usr/lib/udev/rules.d/60-io.rules": rule,
            "usr/lib/udev/rules.d/61-other.rules": f"# {rule}\n",
            "usr/lib/udev/rules.d/62-io.rules": rule,
            "etc/udev/rules.d/62-io.rules": "",  # hides the one of its name
        },
    )
    assert list(host.scheduler_rules(tmp_path)) == [(Path("/usr/lib/udev/rules.d/60-io.rules"), rule)]
    assert any(f.topic == "udev" and f.status == "warn" for f in host.drive_findings(tmp_path))
