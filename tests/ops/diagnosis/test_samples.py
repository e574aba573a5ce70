"""Every sample is read; what is healthy is called so, and the rest by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ops.diagnosis.given import SAMPLES, evidence, first, verdicts

ALL = sorted(path for path in SAMPLES.iterdir() if path.name != "README.md")


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_every_sample_is_understood(path: Path) -> None:
    found = evidence({path.name: path.read_text()})
    assert found.usable, path.name


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("dmesg-healthy-boot.txt", "healthy"),
        ("dmesg-rk3576-boot.txt", "healthy"),
        ("dmesg-reset-storm.txt", "reset-storm"),
        ("dmesg-reset-storm-userspace.txt", "npu-soft-reset"),
        ("dmesg-wrap-gap.txt", "npu-soft-reset"),
        ("dmesg-iova-exhaustion.txt", "iommu-unmap-leak"),
        ("dmesg-domain-switch-timeout.txt", "domain-switch-timeout"),
        ("dmesg-page-fault.txt", "iommu-page-fault"),
        ("dmesg-opp-warnings.txt", "opp-missing"),
        ("dmesg-hung-task.txt", "process-stuck-D"),
        ("dmesg-power-domain-panic.txt", "power-domain-failure"),
        ("dmesg-timeout-driver-0.8.2.txt", "npu-job-timeout"),
        ("dmesg-timeout-driver-0.9.7.txt", "npu-job-timeout"),
        ("dmesg-rk3566-dkms-boot.txt", "npu-job-timeout"),
        ("dmesg-rocket-mainline.txt", "npu-job-timeout"),
        ("npu-load-absent.stderr.txt", "debugfs-unavailable"),
        ("npu-load-permission-denied.stderr.txt", "permission-denied"),
        ("npu-load-rk3588-old-unclamped.txt", "npu-load-invalid"),
        ("npu-load-rk356x-busy.txt", "healthy"),
        ("npu-load-rk3588-extra-space.txt", "healthy"),
        ("npu-version-0.8.2.txt", "driver-too-old"),
        ("npu-version-0.9.8.txt", "healthy"),
        ("meminfo-rk3588-32g-page-cache-full.txt", "healthy"),
    ],
)
def test_first_verdict(name: str, kind: str) -> None:
    assert first({name: (SAMPLES / name).read_text()}).kind == kind


def test_the_leak_behind_a_full_window_is_named_with_it() -> None:
    found = verdicts({"dmesg.txt": (SAMPLES / "dmesg-iova-exhaustion.txt").read_text()})
    assert [v.kind for v in found] == ["iommu-unmap-leak", "iova-exhausted"]
    assert (
        found[0].facts["unmap_warnings"] == 2
        and found[0].facts["imports"]
        and found[1].facts["failed_bytes"] == 268435456
    )


def test_faults_not_printed_are_counted_as_a_lower_bound() -> None:
    verdict = first({"dmesg.txt": (SAMPLES / "dmesg-page-fault.txt").read_text()})
    assert (verdict.facts["page_faults"], verdict.facts["suppressed"], verdict.facts["lower_bound"]) == (
        3,
        411,
        True,
    )
    assert verdict.facts["addresses"][0] == "0x00000000ff3c0000"


def test_both_in_one_log() -> None:
    found = verdicts({"dmesg.txt": (SAMPLES / "dmesg-timeout-driver-0.8.2.txt").read_text()})
    assert [v.kind for v in found] == ["npu-job-timeout", "npu-job-interrupted"]
    assert found[0].facts["timeouts"] == 1 and found[1].facts["ret"] == -512


def test_the_mainline_core_is_named_and_its_clock_left_alone() -> None:
    verdict = first({"dmesg.txt": (SAMPLES / "dmesg-rocket-mainline.txt").read_text()})
    assert verdict.facts["failed_cores"] == [0] and any(
        "leave the NPU clock" in text for text in verdict.advice
    )
