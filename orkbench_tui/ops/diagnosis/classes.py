"""The classes a diagnosis can give: order, usual severity and meaning, as one table.

The order is that of explanation: a class further up usually causes those further down, so it is said first.
"""

from __future__ import annotations

from dataclasses import dataclass

from orkbench_tui.ops.diagnosis.verdict import Level

__all__ = ["CLASSES", "ProblemClass", "rank"]


@dataclass(frozen=True, slots=True)
class ProblemClass:
    name: str
    severity: Level
    meaning: str
    looks_at: str


_I, _L, _W, _H, _C = Level

CLASSES: tuple[ProblemClass, ...] = (
    ProblemClass("power-domain-failure", _C, "the NPU's power domain, supply or clock did not come up", "kernel log"),
    ProblemClass("kernel-image-invalid", _H, "a kernel, device tree, initrd or module that cannot be started", "head of the file, boot loader and module messages"),
    ProblemClass("boot-layout-unknown", _W, "it is not known how this board boots, or it boots from the network", "/boot listing, kernel command line, boot loader output"),
    ProblemClass("patch-rejected", _W, "a kernel patch does not fit the tree", "output of patch, git apply, git am"),
    ProblemClass("gguf-corrupt", _W, "a model file is incomplete or not a GGUF file", "header, folder listing, loader messages"),
    ProblemClass("gguf-unsupported-type", _W, "a tensor type this program cannot read", "tensor list, loader messages"),
    ProblemClass("tokenizer-unknown", _W, "the tokenizer is not one this program knows", "GGUF keys, loader messages"),
    ProblemClass("driver-missing", _H, "no rknpu driver runs here", "kernel log, device nodes, modules, device tree"),
    ProblemClass("permission-denied", _W, "this user may not open the NPU or a file", "ids and modes of the device nodes, errors"),
    ProblemClass("driver-too-old", _H, "the driver lacks what the runtime needs, or is a version known to be broken", "version file, log, runtime messages"),
    ProblemClass("oom-kill", _H, "the kernel ended a program because RAM ran out", "kernel log, /proc/meminfo"),
    ProblemClass("iommu-page-fault", _H, "the NPU touched an address that is not mapped", "kernel log"),
    ProblemClass("domain-switch-timeout", _H, "an address-space domain stayed in use and the NPU could not change to another", "kernel log, open descriptors"),
    ProblemClass("iommu-unmap-leak", _H, "imports are unmapped in the wrong domain: address space leaks until reboot", "kernel log"),
    ProblemClass("iova-exhausted", _H, "the 4 GiB address window of a domain is full", "kernel log, open descriptors, /proc/meminfo"),
    ProblemClass("reset-storm", _C, "job time-outs and resets one after the other", "kernel log, processes"),
    ProblemClass("process-stuck-D", _H, "a process waits in the kernel and cannot be ended", "processes, kernel log"),
    ProblemClass("cma-exhausted", _W, "the contiguous memory area is used up", "kernel log, /proc/meminfo"),
    ProblemClass("import-no-memory", _H, "a buffer could not be made or imported", "runtime messages, kernel log, /proc/meminfo"),
    ProblemClass("npu-job-timeout", _H, "a job was accepted and never completed", "kernel log, load"),
    ProblemClass("npu-job-interrupted", _L, "a waiting program got a signal; not a hardware fault", "kernel log"),
    ProblemClass("opp-missing", _W, "no frequency control: the NPU stays at its boot clock", "kernel log, devfreq"),
    ProblemClass("thermal-throttle", _W, "heat holds clocks down", "temperatures, trips, cooling devices, clocks"),
    ProblemClass("governor-not-max", _W, "clocks are not at their maximum although nothing forces them down", "devfreq and cpufreq"),
    ProblemClass("chat-template-missing", _W, "the model file carries no chat template", "GGUF keys, loader messages"),
    ProblemClass("npu-busy-other-process", _W, "another process holds the NPU", "open descriptors, load, errors"),
    ProblemClass("npu-load-invalid", _L, "the driver printed a load that is not one", "load file"),
    ProblemClass("npu-soft-reset", _L, "the NPU was reset without a job time-out before: asked for by software", "kernel log"),
    ProblemClass("debugfs-unavailable", _L, "the driver's debug files cannot be read", "errors, listings, mounts"),
    ProblemClass("healthy", _I, "nothing wrong in what was looked at", "everything given"),
)  # fmt: skip

_RANK = {entry.name: index for index, entry in enumerate(CLASSES)}


def rank(name: str) -> int:
    """Place in the order of explanation; KeyError for a class that does not exist."""
    return _RANK[name]
