"""What kernel-log lines mean: one table.

A rule has a stable id, a severity, a pattern, the meaning and the next step. The first rule that
matches wins. ``kind`` says what a line counts as (see counting.py); several lines of one incident carry
different kinds so that one incident counts once. Patterns name their figures as groups.

Every rknpu line comes with one of two prefixes, ``RKNPU: `` or ``RKNPU <node>: RKNPU: ``; vendor forks
add a digit (``RKNPU3: ``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from orkbench_tui.ops.kernel_log.sources import printed_by

__all__ = ["NPU_NODE", "RULES", "UNKNOWN_NPU", "Rule", "Severity", "without_prefix"]


class Severity(IntEnum):
    DEBUG = 0
    INFO = 1
    NOTICE = 2
    WARNING = 3
    ERROR = 4
    CRITICAL = 5

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    severity: Severity
    pattern: re.Pattern[str]
    meaning: str
    next_step: str = ""
    kind: str = ""

    @property
    def source(self) -> str:
        """Which part of the kernel prints it."""
        return printed_by(self.id)


# fdab0000.npu, 27700000.npu, fde40000.npu, ff300000.npu, 22000000.npu; some device trees say .rknpu.
NPU_NODE = r"[0-9a-f]{6,16}\.(?:rk)?npu"
_PREFIX = rf"^(?:RKNPU[0-9]? {NPU_NODE}: )?RKNPU[0-9]?: \s*"
_DEVICE = rf"^(?:RKNPU[0-9]?|platform|rocket) {NPU_NODE}: (?:RKNPU[0-9]?: )?"
_IOMMU = r"^rk_iommu [0-9a-f]+\.iommu: "

_D, _I, _N, _W, _E, _C = Severity


def _npu(body: str) -> re.Pattern[str]:
    return re.compile(f"{_PREFIX}(?:{body})")


def _dev(body: str) -> re.Pattern[str]:
    return re.compile(f"{_DEVICE}(?:{body})")


def _mmu(body: str) -> re.Pattern[str]:
    return re.compile(f"{_IOMMU}(?:{body})")


def _any(body: str) -> re.Pattern[str]:
    return re.compile(body)


_REBOOT = "stop NPU work, save the log, reboot"
_CALLER = "correct the program that submits"
_MEMORY = "free memory: stop other holders, then `ork board drop-caches`"

RULES: tuple[Rule, ...] = (
    # jobs and resets
    Rule("npu.reset", _N, _npu(r"soft reset(?:, num: (?P<lines>\d+))?$"),
         "the driver pulsed the NPU reset lines (num is how many lines exist, not how many resets)",
         "look at the line before: after a job timeout it ended a hang, alone it was asked for by software", "reset"),
    Rule("npu.reset.bypassed", _E, _npu(r"bypass soft reset"),
         "resets are switched off, so a hung job stays hung", "write `on` to /sys/kernel/debug/rknpu/reset"),
    Rule("npu.reset.failed", _C, _npu(r"failed to (?:assert rknpu reset|deassert rknpu reset|soft reset for rknpu): (?P<ret>-?\d+)"),
         "the reset controller refused; nothing is dispatched any more", _REBOOT),
    Rule("npu.reset.absent", _E, _npu(r"failed to get rknpu reset"),
         "no reset lines in the device tree: a hang cannot be repaired", "correct the device tree"),
    Rule("npu.job.uncommitted", _E,
         _npu(r"job: (?P<job>\S+), (?:mask: (?P<mask>0x[0-9a-f]+), )?(?:job )?iommu domain id: (?P<job_domain>-?\d+),"
              r".*commit elapse time: 0us, wait time: (?P<wait_us>\d+)us"),
         "a job waited and never reached the hardware: the NPU was in another domain",
         "find who holds the active domain", "wait"),
    Rule("npu.job.wait", _E,
         _npu(r"job: (?P<job>\S+), (?:mask: (?P<mask>0x[0-9a-f]+), )?(?:job )?iommu domain id: (?P<job_domain>-?\d+),"
              r"(?: dev iommu domain id: (?P<live_domain>-?\d+),)?.*wait time: (?P<wait_us>\d+)us"),
         "a blocking wait ran out once", "the lines that follow say which core and why", "wait"),
    Rule("npu.job.interrupted", _N, _npu(r"failed to wait job, task counter: (?P<tasks>-?\d+).* ret = -(?:512|4)\b"),
         "the waiting program got a signal; not a hardware fault", "", "interrupted"),
    Rule("npu.job.timeout", _E,
         _npu(r"failed to wait job, task counter: (?P<tasks>-?\d+), flags: (?P<flags>\S+), ret = (?P<ret>-?\d+),"
              r" elapsed time: (?P<elapsed_us>\d+)us"),
         "a job was accepted and never completed", "the answer in progress is void; see the core line below", "hang"),
    Rule("npu.job.timeout.status", _E,
         _npu(r"job timeout, flags: (?P<flags>[^,:]+), irq status: (?P<irq>\S+), raw status: (?P<raw>\S+), require mask: "
              r"(?P<want>\S+), task counter: (?P<tasks>\S+), elapsed time: (?P<elapsed_us>\d+)us"),
         "the job is dropped; raw status 0 means it never finished anything", "a reset follows", "timeout"),
    Rule("npu.job.timeout.head", _E, _npu(r"job timeout, flags: (?P<flags>[^,:]+):?$"),
         "the job is dropped; one line per core follows", "a reset follows", "timeout"),
    Rule("npu.job.core", _E,
         _npu(r"core (?P<core>\d+) irq status: (?P<irq>\S+), raw status: (?P<raw>0x[0-9a-f]+), require mask: (?P<want>\S+),"
              r" task counter: (?P<tasks>\S+), elapsed time: (?P<elapsed_us>\d+)us"),
         "state of one core at the timeout: raw 0x0 finished nothing, raw 0x10000 is a bus error",
         "compare the task counter with the program's task list", "core"),
    Rule("npu.job.abort.signal", _N, _npu(r"job abort, flags: \S+, ret: -(?:512|4)\b"),
         "a job was dropped because its program got a signal", ""),
    Rule("npu.job.abort", _E, _npu(r"job abort, flags: (?P<flags>\S+), ret: (?P<ret>-?\d+)"),
         "a job was dropped for another reason than time; -22 is a failed domain switch", "look at the line before", "abort"),
    Rule("npu.job.commit", _E, _npu(r"job commit failed"),
         "no task of the job was ever programmed: a domain switch failed or a reset was running",
         "look for a domain switch time-out above", "uncommitted"),
    Rule("npu.irq.mismatch", _W,
         _npu(r"invalid irq status: (?P<irq>\S+), raw status: (?P<raw>\S+), require mask: (?P<want>\S+)"),
         "a completion interrupt was not the one the job asked for", "check the interrupt mask of the submitter", "irq_mismatch"),
    Rule("npu.irq.off", _C, _npu(r"bypass irq handler"), "interrupts are switched off: every job will time out",
         "clear the module parameter bypass_irq_handler and reboot"),
    Rule("npu.job.stuck", _W, _npu(r"core (?P<core>\d+): NOT dispatching|NO TASK PROGRESS"),
         "a patched kernel sees a core that makes no progress", "a reset follows or `ork board recover`"),
    Rule("npu.submit.invalid", _E,
         _npu(r"(?:invalid rknpu (?:task number|core mask|core index)|Unknown (?:core mask|use core num)|invalid buffer size"
              r"|invalid page offset)"),
         "a program asked for something the driver does not do", _CALLER),
    Rule("npu.fence", _E, _npu(r"(?:invalid fence in fd|Error \(-?\d+\) waiting for fence|failed to use rknpu fence"
                               r"|failed to allocate fence)"),
         "a fence was wrong or fences are not built in", "do not use fences, or rebuild the kernel with them"),
    Rule("npu.user.pointer", _E, _npu(r".*copy_(?:from|to)_user failed"), "a program passed a bad address", _CALLER),
    # domains
    Rule("npu.iommu.switch", _I, _npu(r"switch iommu domain from (?P<src>\d+) to (?P<dst>\d+)"),
         "the active address space changed; normal", "", "switch"),
    Rule("npu.iommu.switch_timeout", _E, _npu(r"switch iommu domain time out, .*id: (?P<dst>-?\d+)"),
         "six seconds passed and another domain was still in use", "find the holders and stop them with SIGTERM, never kill -9",
         "switch_timeout"),
    Rule("npu.iommu.switch_failed", _E, _npu(r"failed to switch iommu domain, id: (?P<dst>-?\d+), ret: (?P<ret>-?\d+)"),
         "the address space could not be attached", _REBOOT),
    Rule("npu.iommu.domain_id", _E, _npu(r"invalid iommu domain id: (?P<id>-?\d+)"),
         "a program asked for a domain outside 0..15", _CALLER),
    Rule("npu.iommu.detached", _C,
         _npu(r"(?:mismatch domain get from|failed to (?:re)?attach (?:src |dst )?iommu domain|rknpu_iommu_free_domains error)"),
         "core and driver disagree about the attached address space", _REBOOT),
    Rule("npu.iommu.refcount", _E, _npu(r"(?:iommu domain refcount underflow|domain_put UNDERFLOW|domain refcount hit 0|reclaim: |ESCALATING )"),
         "a patched kernel corrected the use count of a domain", "report it with the log"),
    Rule("npu.mem.create", _E, _npu(r"rknpu_gem_object_create error"),
         "a buffer was refused because its domain could not be entered", "see the switch time-out above"),
    Rule("npu.mem.sync", _E, _npu(r"rknpu_gem_sync_ioctl error"),
         "a cache sync was refused: data may be stale", "treat the results as void"),
    Rule("npu.mem.leak", _E, _npu(r"failed to destroy dma addr: (?P<address>\S+), size: (?P<bytes>\d+)"),
         "a buffer was not freed: memory and address space are lost until reboot", "reboot when the sum is large", "leak"),
    Rule("npu.mem.deferred", _W, _npu(r"cannot switch to domain \d+ to destroy"),
         "a patched kernel parked a buffer it could not free yet", "it should drain to 0"),
    Rule("npu.mem.destroy", _E, _npu(r"failed to destroy memory"), "a destroy call failed, the handle is still open",
         "try again when the NPU is idle"),
    # memory
    Rule("npu.mem.iova", _E, _npu(r"failed to allocate IOVA: (?P<ret>-?\d+)|.*iommu_dma_alloc_iova failed"),
         "the 4 GiB address window of a domain has no hole of that size", "stop other holders or use another domain", "iova"),
    Rule("npu.mem.map", _E, _npu(r"failed to map SG: (?P<ret>-?\d+)"),
         "a mapping failed: -98 is EADDRINUSE, the address was still mapped (imports freed in the wrong domain); -12 no memory",
         "with -98 reboot", ""),
    Rule("npu.mem.dma_map", _E, _npu(r"\w+: dma map (?P<bytes>\d+) fail"), "the size that could not be mapped",
         "see the line before", ""),
    Rule("npu.mem.pages", _E,
         _npu(r"(?:failed to allocate (?:non-contiguous )?(?P<bytes>\d+) buffer|failed to allocate pages|failed to get pages"
              r"|failed to allocate sgt|failed to vmap|failed to get sgtable|invalid sgtable|failed to allocate (?:rknpu job|iommu domain)"
              r"|failed to initialize gem object|failed to map pages into vma|failed to mmap)"),
         "RAM or contiguous memory ran out, or a mapping step failed", _MEMORY, "no_memory"),
    Rule("npu.mem.fallback", _W, _npu(r"(?:try to fallback to allocate non-contiguous|non-contiguous allocation is not supported)"),
         "contiguous memory could not serve a request", "watch CmaFree"),
    Rule("npu.sram.full", _I, _npu(r"mm allocate \d+ failed"), "on-chip memory was full, DRAM is used instead", ""),
    Rule("npu.sram.use", _D, _npu(r"allocate (?:iova start|cache size|size):"), "a buffer lies in on-chip memory", ""),
    Rule("npu.sram.error", _W, _npu(r"(?:cache iommu_map error|ddr iommu_map error|cache remap_pfn_range error|failed to get iommu domain!"
                                    r"|invalid sram resource|failed to remap (?:sram|nbuf))"),
         "on-chip memory could not be mapped", "report it with the log"),
    Rule("npu.sram.absent", _I, _npu(r"could not find sram resource"),
         "no on-chip memory given to the NPU in the device tree", "only needed for SRAM buffers"),
    Rule("npu.sram.region", _I, _npu(r"(?:sram|nbuf) region: "), "on-chip memory found", ""),
    # power and clocks
    Rule("npu.power.domain", _E, _npu(r"failed to get pm runtime for (?P<name>\w+), ret: (?P<ret>-?\d+)"),
         "a power domain did not come up", "try once more, then reboot"),
    Rule("npu.power.supply", _E, _npu(r"(?:failed to enable (?:vdd|mem) reg|failed to enable clk|failed to get clk source)"),
         "a supply or clock did not come up", "check the supply and the device tree; reboot"),
    Rule("npu.power.dvfs", _W, _npu(r"(?:failed to set volt|failed to set clk rate|failed to restore old-freq|failed to restore clk rate"
                                    r"|failed to set power down rate|failed to enable opp clks)"),
         "a step of voltage or frequency failed", "check the clock before timing anything"),
    Rule("npu.power.paging", _N, _npu(r"iommu still enabled"), "power went off with address translation on", ""),
    Rule("npu.power.manual", _N, _npu(r"rknpu power (?:is (?:on|off)|node params is invalid)|set rknpu power put delay"
                                      r"|failed to parse (?:power put delay|freq) string"),
         "somebody used the debugfs nodes", "ask who"),
    Rule("npu.devfreq.absent", _W,
         _npu(r"(?:failed to add devfreq|failed to add rknpu_ondemand|failed to init_opp_table|failed to get opp table"
              r"|failed to set supported opp|failed to register cooling device)"),
         "no frequency control: the NPU stays at its boot clock", "check the operating points in the device tree"),
    Rule("npu.devfreq.opp", _W,
         _dev(r"(?:opp_parse_supplies: Invalid number|_of_add_opp_table_v2: (?:Failed to add OPP|no supported OPPs)"
              r"|Invalid operating-points in device tree|\w+: (?:failed to find (?:current )?OPP for freq|OPP table not found)"
              r"|current OPP (?:is )?not found)"),
         "the operating points of the device tree do not fit the driver", "use the device tree of the same kernel"),
    # start
    Rule("npu.boot.benign", _D,
         _npu(r"(?:failed to initialize power model|failed to get dynamic-coefficient|bin=|avs=|Failed to get specification_serial_number"
              r"|Get rw_amount|Clear rw_amount)"),
         "printed on healthy boards too", ""),
    Rule("npu.boot.benign", _D,
         _dev(r"(?:(?:error -EBUSY: )?can't request region for resource|failed to find power_model node|Looking up .*-supply"
              r"|leakage=|pvtm|avs=|l=\d+ h=|Failed to get leakage|Adding to iommu group)"),
         "printed on healthy boards too", ""),
    Rule("npu.boot.benign", _D, _any(rf"could not add device link {NPU_NODE}|debugfs: Directory '{NPU_NODE}-rknpu'"
                                     r"|^rknpu: loading out-of-tree module|^rk_iommu \S+: version = "),
         "printed on healthy boards too", ""),
    Rule("npu.boot.mode", _I, _npu(r"rknpu iommu (?:is (?:enabled|disabled)|device-tree entry not found)[,!]+ ?(?P<mode>.*)"),
         "whether buffers are mapped page by page; without, all buffers need contiguous memory", ""),
    Rule("npu.boot.clock", _I, _npu(r"devfreq enabled"), "frequency control is on", ""),
    Rule("npu.boot.driver", _I, _any(r"\[drm\] Initialized (?P<driver>rknpu|rocket) (?P<version>[0-9.]+)"), "the NPU driver started", ""),
    Rule("npu.boot.driver", _I, _npu(r"Initialized \S+ ?(?:driver)?: v(?P<version>[0-9.]+)"), "the NPU driver started", ""),
    Rule("npu.boot.driver", _I, _any(rf"^rocket {NPU_NODE}: Rockchip NPU core"), "the mainline NPU driver found a core", ""),
    Rule("npu.boot.failed", _C,
         _npu(r"(?:no npu |request \S+ failed|rknpu device-tree (?:data|entry) is missing|rknpu core invalid"
              r"|failed to get memory resource|failed to remap (?:register|bw priority)|cannot register miscdev|failed to find cma heap)"),
         "the NPU driver did not start", "use the device tree and kernel that belong together"),
    Rule("npu.unbind.busy", _C, _any(r"^WARNING: .*rknpu_remove"), "the driver was removed with work in flight", "reboot now"),
    Rule("rocket.job.timeout", _E, _any(rf"^rocket {NPU_NODE}: NPU job timed out"),
         "the mainline driver dropped a job and reset that core", "the answer in progress is void", "hang"),
    # rockchip IOMMU and DMA core
    Rule("npu.iommu.fault", _E, _mmu(r"Page fault at (?P<address>0x[0-9a-f]+) of type (?P<access>\w+)"),
         "the NPU touched an address that is not mapped", "a job used a freed buffer or ran in the wrong domain", "page_fault"),
    Rule("npu.iommu.fault.detail", _E, _mmu(r"(?:iova = |mmu_dte_addr: )"), "where the table walk ended", ""),
    Rule("npu.iommu.fault.suppressed", _W, _any(r"^rk_pagefault_done: (?P<count>\d+) callbacks suppressed"),
         "more page faults than were printed", "the count of faults is a lower bound", "page_fault_suppressed"),
    Rule("npu.iommu.fault.suppressed", _W, _any(r"^log_iova: \d+ callbacks suppressed"), "details of page faults left out", "see the faults before"),
    Rule("npu.iommu.bus", _E, _mmu(r"BUS_ERROR occurred at"), "a table or data fetch failed on the bus",
         "on RK356x with more than 4 GiB tables must lie below 4 GiB"),
    Rule("npu.iommu.wedged", _E,
         _mmu(r"(?:(?:Enable|Disable) (?:stall|paging) request timed out|Error during raw reset|FORCE_RESET command timed out"
              r"|unexpected int_status|Page fault while iommu not attached)"),
         "the address translation unit did not answer: wedged or without power", "reset, then power cycle"),
    Rule("npu.iommu.table", _E, _any(r"DMA mapping error while allocating page table|DMA map error for DT"),
         "no memory for translation tables", _MEMORY),
    Rule("npu.mem.still_mapped", _C, _any(r"^iova: (?P<address>0x[0-9a-f]+) already mapped to"),
         "an address was handed out that is still mapped: the accounting is corrupt", _REBOOT),
    Rule("npu.mem.unmap_leak", _W, _any(r"^WARNING: .*__iommu_dma_unmap"),
         "fewer bytes were unmapped than mapped: an import was freed in the wrong domain", "address space leaks until reboot",
         "unmap_warning"),
    # platform
    Rule("npu.power.panic", _C, _any(r"failed to (?:get ack on domain|set idle on domain|set domain) 'npu|panic_on_set_idle"),
         "the NPU's power domain did not answer: rail or clock missing", "boot the stock kernel and its device tree"),
    Rule("kernel.panic", _C, _any(r"^Kernel panic - not syncing"), "the kernel stopped", "power cycle"),
    Rule("npu.rail.off", _N, _any(r"^vdd_npu\w*: disabling"), "the NPU supply was switched off as unused",
         "a driver loaded later must switch it on"),
    Rule("kernel.hung_task", _E, _any(r"^INFO: task (?P<task>\S+):(?P<pid>\d+) blocked for more than"),
         "a program waits in the kernel and cannot be killed", "find what it waits for; reboot", "hung_task"),
    Rule("kernel.abort", _C, _any(r"Internal error: synchronous external abort|SError Interrupt"),
         "a device register was touched without power", "hard reset"),
    Rule("kernel.stall", _C, _any(r"rcu: INFO: rcu_\w+ (?:self-)?detected stall"), "a CPU stopped answering", "power cycle"),
    Rule("kernel.oom", _E, _any(r"(?:[Oo]ut of memory: Kill(?:ed)?|^Killed) process (?P<pid>\d+),? \((?P<task>[^)]*)\)(?:.*anon-rss:(?P<rss_kb>\d+)kB)?"),
         "the kernel ended a program because RAM ran out", "use a smaller model or context", "oom"),
    Rule("kernel.pages", _E, _any(r"^(?P<task>\S+): page allocation failure: order:(?P<order>\d+)"),
         "the kernel found no free pages in one piece", _MEMORY, "no_memory"),
    Rule("kernel.oom.detail", _W, _any(r"invoked oom-killer|^oom-kill:"), "RAM ran out", "use a smaller model or context"),
    Rule("kernel.cma", _W, _any(r"^cma: (?:cma_alloc|__cma_alloc): .*alloc failed"), "contiguous memory ran out",
         "give the kernel a larger cma= area", "cma"),
    Rule("kernel.cma.detail", _D, _any(r"^cma: number of available pages"), "what was left of contiguous memory", ""),
    Rule("kernel.swiotlb", _W, _any(r"swiotlb buffer is full"), "bounce buffers ran out", "use the IOMMU"),
    Rule("ddr.devfreq.absent", _N, _any(r"^rockchip-dmc dmc: \*\*trusted firmware unsupported"),
         "no DDR frequency control with this firmware", "DDR-bound figures are not comparable with other boards"),
    Rule("gpu.noise", _D, _any(r"rockchip_pvtpll_set_volt_sel: error cfg"), "concerns the GPU only", ""),
    Rule("thermal.throttle", _W, _any(r"(?i)thermal .*critical temperature|thermal-throttl|cooling.*state change"),
         "the board is too hot", "measurements are void; improve cooling"),
)  # fmt: skip


def without_prefix(message: str) -> str:
    """An rknpu line without the driver and device names it begins with."""
    return _PREFIX_ONLY.sub("", message)


_PREFIX_ONLY = re.compile(_PREFIX)

UNKNOWN_NPU = Rule(
    "npu.unknown",
    Severity.NOTICE,
    re.compile(rf"RKNPU|\brknpu|\brocket {NPU_NODE}|{NPU_NODE}|rk_iommu"),
    "a line about the NPU that no rule knows",
    "read it",
)
