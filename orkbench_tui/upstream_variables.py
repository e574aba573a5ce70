"""Environment variables of the upstream stack: what each does there, and what stands for it here.

None of them sets anything in this program. A shell that exports one was set up for the other stack, and a
user who believes it in force would read a figure wrongly: ``variable_warnings`` tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from orkbench_tui.driver.guards import warning
from orkbench_tui.settings import unknown_variables

__all__ = ["UPSTREAM_VARIABLES", "Danger", "UpstreamVariable", "set_variables", "variable_warnings"]

_FALSE = frozenset({"", "0", "false", "no", "off"})


class Danger(StrEnum):
    """What setting it may do there."""

    NONE = ""
    CORRUPTS = "corrupts results"
    SLOWS = "slows"
    MEANING = "changes what a pack or result means"
    DIAGNOSTIC = "perturbs timing"


@dataclass(frozen=True, slots=True)
class UpstreamVariable:
    """``presence``: upstream asks only whether it is set, so that 0 switches it on. ``here`` is this program's
    way to the same end, "" where there is none."""

    name: str
    default: str
    meaning: str
    danger: Danger = Danger.NONE
    presence: bool = False
    here: str = ""

    def on(self, value: str) -> bool:
        """Whether this value would switch it on, read as a boolean: 0, false, no, off and nothing are off."""
        return value.strip().lower() not in _FALSE

    def line(self, value: str) -> str:
        """What to tell a user who has it set to ``value``."""
        text = f"{self.name}={value} is upstream's and sets nothing here; there: {self.meaning}"
        if self.danger:
            text += f", {self.danger}"
        if self.presence and not self.on(value):
            text += (
                f"; taken as off here, and {value or 'empty'} is on there, which asks only whether it is set"
            )
        return f"{text}; here: {self.here}" if self.here else text


_V = UpstreamVariable
_D = Danger
_DISPATCH, _PACK, _IMPORT = "the setting dispatch", "`ork pack build --quant`", "importing chooses by itself"
_PROBE = "`ork npu probe`"
_TRACE = "`ork board log`"

_ROWS: tuple[UpstreamVariable, ...] = (
    # placement and fusion
    _V("ORK_OFF", "off", "nothing runs on the NPU", presence=True, here="dispatch=all=cpu, or quant=f32"),
    _V("ORK_OFFLINE", "", "a context for a named chip without a device", here="target=sim, `ork pack build`"),
    _V("ORK_ATTN", "0", "attention's matmuls on the NPU", _D.SLOWS, here="attention runs on the CPU"),
    _V("ORK_ATTN_NPU_MIN_CTX", "", "context from which attention may use the NPU", here="`ork run explain`"),
    _V("ORK_SOFTMAX_NPU", "0", "softmax on the NPU", _D.SLOWS, here="softmax runs on the CPU (GRD-51)"),
    _V("ORK_NORM_NPU", "0", "norms on the NPU", here="norms run on the CPU"),
    _V("ORK_FFN_CHAIN", "0", "feed-forward as one chain", _D.SLOWS),
    _V(
        "ORK_FFN_PC",
        "0",
        "precompiled programs in decoding's feed-forward",
        here="`ork npu probe decode-bandwidth`",
    ),
    _V("ORK_FUSE", "off", "q, k and v, gate and up as one matmul", presence=True, here="they share a submit"),
    _V("ORK_MINM", "32", "fewest rows the NPU takes", here=_DISPATCH),
    _V("ORK_MAXN", "32768", "most columns the NPU takes", here=_DISPATCH),
    _V(
        "ORK_ALLOW_Q4_SRC",
        "0",
        "weights of fewer than 5 bits as a source",
        _D.MEANING,
        here="`ork pack build --force`",
    ),
    # quantization
    _V("ORK_HADAMARD", "0", "rotate along K", _D.MEANING, here="quant=w8a8-rot, the default"),
    _V("ORK_PERCHAN", "0", "one scale per channel in int4", _D.MEANING, here=_PACK),
    _V("ORK_HYBRID", "0", "tiers mixed", _D.MEANING, here=_PACK),
    _V("ORK_NF4", "0", "the NF4 codebook for 4-bit tiers", _D.MEANING, here="quant=nf4-mixed"),
    _V("ORK_SR", "0", "stochastic rounding", _D.MEANING, here="`ork pack qerr`"),
    _V("ORK_IMATRIX", "", "a file of importances", _D.MEANING, here="`ork pack calibrate`"),
    _V("ORK_GPTQ", "0", "rounding with second-order correction", _D.MEANING, here="`ork pack qerr`"),
    _V("ORK_ORKPACK_TIERMAP", "", "a file that maps tensors to tiers", _D.MEANING, here=_PACK),
    _V("ORK_ORKPACK_I4_FFN", "off", "feed-forward in int4", _D.MEANING, presence=True, here=_PACK),
    _V("ORK_ORKPACK_CPU", "off", "convert without the NPU", presence=True, here="packing never needs one"),
    # matmuls and data
    _V("ORK_NPU_MC", "3", "cores to use"),
    _V("ORK_CHAIN_MC", "0", "a chain fanned out with a barrier", _D.SLOWS),
    _V("ORK_FULLK_DEC", "1", "decoding over the whole K"),
    _V("ORK_NO_BF", "0", "drop the whole-K copies of weights", here="weights are held once"),
    _V("ORK_ZC_OUT", "0", "results in place", here="arrays of `Npu.dma_array`"),
    _V(
        "ORK_MIXED_NOTHRASH",
        "0",
        "integer modes stay warm among each other",
        here="`ork npu modes --nothrash`",
    ),
    _V("ORK_SSM_KEEPWARM", "1", "int8 and fp16 stay warm among each other", here="`ork npu modes`"),
    _V("ORK_SDP_NORESET", "1", "no reset around element-wise work", here="`ork npu modes`"),
    _V("ORK_XSPEC_NOCLEAR", "0", "ablation: warm flags survive a mode", _D.CORRUPTS),
    _V("ORK_XSPEC_NORESET", "0", "ablation: no reset between modes", _D.CORRUPTS),
    _V("ORK_NO_AFFINITY", "0", "do not pin the process", here="workers alone are pinned: npu_workers"),
    _V("ORK_MTILE_WR", "0", "weights stay over row tiles", here="`ork npu probe weight-reuse`"),
    _V("ORK_MTILE_WR_ALL", "0", "lifts the rule of that reuse", _D.CORRUPTS),
    _V("ORK_I4_WREUSE", "1", "weights stay within an int4 expert"),
    _V("ORK_R1040", "", "a raw word for the bank register", _D.CORRUPTS),
    _V("ORK_CONSOLIDATE_I8", "0", "int8 weights in shared buffers"),
    _V("ORK_DIRECT_I4", "1", "int4 inflated without float32", here="4-bit packs are"),
    _V("ORK_DECODE_MC", "", "decoding over several cores"),
    _V("ORK_JOB_NONBLOCK", "0", "plain submits do not wait"),
    _V("ORK_NOCACHE", "off", "no cache of weights", presence=True),
    _V("ORK_BW_FRESH", "0", "a probe allocates for every repetition", _D.DIAGNOSTIC, here=_PROBE),
    # packs, domains, memory
    _V("ORK_PERSIST", "", "removed upstream, which stops with an explanation"),
    _V("ORK_NO_STUB", "0", "make no stub", here="`ork pack stub` makes one when asked"),
    _V("ORK_NO_IMPORT", "0", "copy weights in place of importing them", here=_IMPORT),
    _V("ORK_IMPORT_CHUNK_MB", "16", "size of an import", here=_IMPORT),
    _V("ORK_NO_CONSOLIDATE_IMPORT", "0", "an import for every tile", _D.CORRUPTS, here=_IMPORT),
    _V("ORK_DOMAINS", "", "least number of domains", here="`ork pack plan`"),
    _V("ORK_DOMAINS_FORCE", "", "number of domains, for reproducing the leak", here="`ork pack reside`"),
    _V("ORK_IOVA_CEIL_MB", "3900", "bytes of a domain", here="`ork pack plan`"),
    _V("ORK_DOM_SETTLE_US", "1000", "wait after a switch of domains"),
    _V("ORK_DOM_DRAIN", "1", "drain before a switch of domains"),
    _V(
        "ORK_EVICT_SRC",
        "off",
        "drop the source's pages after packing",
        presence=True,
        here="pages go by themselves",
    ),
    # experts
    _V(
        "ORK_MOE_NPU",
        "off",
        "experts on the NPU",
        _D.SLOWS,
        presence=True,
        here="experts run on the CPU (GRD-29)",
    ),
    _V("ORK_MOE_AUTO", "1", "chooses the profile of a mixture", here="`ork run explain`"),
    _V("ORK_MOE_HOT", "8", "frequent experts kept for each layer", _D.SLOWS, here="`ork model experts`"),
    _V("ORK_MOE_CPU_THREADS", "4", "threads of the experts", here="threads"),
    _V("ORK_MOE_PROFILE_FREQ", "", "a file of routing counts", here="`ork model experts`"),
    _V("ORK_MOE_MPAD", "", "rows experts are padded to; of a branch that was set aside"),
    _V(
        "ORK_I4_M1_NPU",
        "",
        "one row of int4 on the NPU; of a branch that was set aside",
        here="one row runs on the CPU",
    ),
    # profiling
    _V("ORK_PROFILE", "0", "phase timers", _D.DIAGNOSTIC, here="`ork run bench`"),
    _V("ORK_OPPROF", "0", "time of each operation", _D.DIAGNOSTIC, here="`ork run explain`"),
    _V("ORK_FFN_PROF", "0", "time of each hop of the feed-forward", _D.DIAGNOSTIC, here=_PROBE),
    _V("ORK_DOM_PROFILE", "0", "counters of domains", _D.DIAGNOSTIC, here="`ork npu domains`"),
    _V("ORK_DEBUG_RESET", "0", "counts and times resets", _D.DIAGNOSTIC, here="`ork board status`"),
    _V("ORK_TRACE", "0", "a line for every submit", _D.DIAGNOSTIC, here=_TRACE),
    _V("ORK_DUMP_FAIL", "0", "the last submit when one fails", _D.DIAGNOSTIC, here="`ork npu failures`"),
    _V("ORK_BUFPROBE", "0", "where buffers lie", _D.DIAGNOSTIC, here="`ork npu domains`"),
    # device
    _V("ORK_NPU_CARD", "/dev/dri/card1", "the node of the NPU", here="the card is found by its driver"),
    _V("ORK_MM_TIMEOUT", "60000", "time-out of a submit in ms", here="npu_timeout_ms"),
    _V("ORK_NO_GOV_WARN", "0", "no warning of governors", here="`ork board doctor`"),
    _V("ORK_MISS_K", "6", "factor of the window for lost jobs"),
)

UPSTREAM_VARIABLES: dict[str, UpstreamVariable] = {row.name: row for row in _ROWS}


def set_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Every ``ORK_`` variable that is set, by name: what a record of results keeps."""
    return {name: environment[name] for name in sorted(environment) if name.startswith("ORK_")}


def variable_warnings(environment: Mapping[str, str]) -> list[str]:
    """One line for every ``ORK_`` variable that sets nothing here; upstream's are explained (GRD-27)."""
    lines = []
    for name in unknown_variables(environment):
        known = UPSTREAM_VARIABLES.get(name)
        if known is None:
            lines.append(f"{name} sets nothing: there is no such setting")
        elif known.presence and not known.on(environment[name]):
            lines.append(warning("GRD-27", seen=known.line(environment[name])))
        else:
            lines.append(known.line(environment[name]))
    return lines
