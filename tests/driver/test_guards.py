"""The guard table is whole, what it claims to enforce exists, and each such guard refuses untouched."""

import importlib
import mmap
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from orkbench_tui.driver import guards, uapi
from orkbench_tui.driver.chain_rules import OpKind, require_hardware_edge
from orkbench_tui.driver.domains import Domains
from orkbench_tui.driver.guards import GUARDS, Reaction
from orkbench_tui.driver.head_attention import HeadAttention, softmax_codes
from orkbench_tui.driver.importer import Importer, ImportSettings, require_chain_mappings
from orkbench_tui.driver.matmul.grouped import GroupedMatmul, GroupedWeight
from orkbench_tui.driver.matmul.grouped_int8 import GroupedInt8Matmul
from orkbench_tui.driver.matmul.operands import cores_for_outputs
from orkbench_tui.driver.matmul.reuse import CoreShare, WeightReuse, reuse_columns
from orkbench_tui.driver.memory import Buffer, Memory, Slice
from orkbench_tui.driver.precompiled import require_own_descriptors, require_polled
from orkbench_tui.driver.regcmd.int4_batch import batch_rows
from orkbench_tui.driver.regcmd.programs import INT8_TO_INT32
from orkbench_tui.driver.sdp.formats import FORMATS, checked_rows
from orkbench_tui.driver.soc import RK3588
from orkbench_tui.driver.submit import Job, checked_core_mask, checked_job_flags, core_mask_for
from orkbench_tui.driver.task_rules import require_full_k, require_one_row_tile, require_whole_k
from orkbench_tui.errors import ExitCode, RefusedError
from orkbench_tui.runner.expert_residency import ExpertResidency, require_experts_resident

DOCS = Path(__file__).parents[2] / "docs"


class Untouchable:
    """A device nobody may ask anything."""

    name = "untouchable"

    def ioctl(self, request, argument):
        raise AssertionError(f"ioctl {request:#x} on a guarded path")

    def mmap(self, offset, length):
        raise AssertionError("mmap on a guarded path")

    def close(self):
        pass


def _allocate(flags=uapi.DATA_FLAGS, domain=0):
    Memory(Untouchable(), window_bytes=1 << 32, guard_bytes=1 << 31).allocate(4096, flags, domain)


def _import(size=4096, domain=0, **settings):
    memory = Memory(Untouchable(), window_bytes=1 << 32, guard_bytes=1 << 31)
    domains = Domains(memory, lambda domain: Untouchable().ioctl(0, b""))
    Importer(Untouchable(), memory, domains, Untouchable(), ImportSettings(**settings)).allocate(size, domain)


def _activate_while_freeing():
    memory = Memory(Untouchable(), window_bytes=1 << 32, guard_bytes=1 << 31)
    domains = Domains(memory, lambda domain: Untouchable().ioctl(0, b""))
    domains.release_all()
    domains.enter(1)


def _attend_to_few_keys():
    head = HeadAttention.__new__(HeadAttention)
    head.kv = SimpleNamespace(head_dim=64, length=255)
    head.attend(np.zeros(64, np.float32))


_BUFFER, _OTHER = (
    Buffer(handle, handle << 12, 0, 4096, 0, 0, np.zeros(4096, np.uint8), mmap.mmap(-1, 4096))
    for handle in (2, 3)
)


def _grouped(activation_bits):
    return GroupedWeight("w", 64, 32, 32, (None, None), np.ones((2, 32), np.float32), activation_bits)


# One way into every guard that is enforced; the value is what the message must show.
TRIGGERS = {
    "GRD-01": (lambda: checked_core_mask(0x7, RK3588), "core mask 0x7"),
    "GRD-02": (lambda: _allocate(uapi.TASK_FLAGS | uapi.MemFlag.TRY_ALLOC_SRAM), "flags 0x50b"),
    "GRD-03": (lambda: require_hardware_edge(OpKind.MATMUL_W8A8, OpKind.GELU_I8), "gelu_i8"),
    "GRD-04": (lambda: require_hardware_edge(OpKind.MATMUL_W16A16, OpKind.GELU_I8), "gelu_i8"),
    "GRD-05": (_activate_while_freeing, "domain 1 asked for"),
    "GRD-06": (lambda: _import(domain=2, anchors=False), "domain 2 without an anchor"),
    "GRD-07": (lambda: require_chain_mappings(6, "a chain"), "walks 6 imported mappings, allowed: 5"),
    "GRD-08": (lambda: _import(17 << 20), f"{17 << 20} bytes, allowed: up to {16 << 20}"),
    "GRD-09": (lambda: _allocate(domain=16), "domain 16, allowed: 0 to 15"),
    "GRD-10": (lambda: require_full_k(768, "w"), "w has K = 768, allowed: multiples of 512 up to 4096"),
    "GRD-11": (
        lambda: require_whole_k(
            SimpleNamespace(name="w", k=8704, slices=(0, 8192), format=SimpleNamespace(k_limit=8192))
        ),
        "w has K = 8704 in 2 slices, allowed: one slice, K up to 8192",
    ),
    "GRD-12": (
        lambda: reuse_columns(RK3588, INT8_TO_INT32, 2048, 128, WeightReuse(4, columns=96)),
        "K = 2048 with 96 columns in 4 weight banks, allowed: up to 64",
    ),
    "GRD-13": (
        lambda: reuse_columns(RK3588, INT8_TO_INT32, 1536, 64, WeightReuse(4)),
        "int8->int32, K = 1536, 64 columns, 4 weight banks",
    ),
    "GRD-15": (_attend_to_few_keys, "255 keys, allowed: from 256"),
    "GRD-16": (
        lambda: softmax_codes(np.full(512, 1 / 512, np.float32), 127),
        "scale 127 for weights up to 0.00195",
    ),
    "GRD-17": (lambda: checked_rows(FORMATS["int8"], 8177), "8177 rows of int8, allowed: 1 to 8176"),
    "GRD-18": (
        lambda: require_one_row_tile([SimpleNamespace(tile_rows=(4,)), SimpleNamespace(tile_rows=(7,))]),
        "row tiles of 4, 7 rows",
    ),
    "GRD-20": (lambda: batch_rows(8224), "K = 8224 leaves 1 rows, at least 2 are needed"),
    "GRD-21": (
        lambda: GroupedMatmul(None, _grouped(8), 64),
        "w was made for 8-bit activations, groups of 32",
    ),
    "GRD-22": (lambda: GroupedInt8Matmul(None, _grouped(8), 64), "w, 2 groups of 32"),
    "GRD-23": (
        lambda: cores_for_outputs(SimpleNamespace(), [Slice(_BUFFER, 0, 64)], 3, fall_back=False),
        "1 results in NPU memory of the caller's, 3 cores",
    ),
    "GRD-42": (
        lambda: require_own_descriptors(Job(Slice(_BUFFER, 0, 40), 0, 1), _OTHER),
        "task array at 0x2000",
    ),
    "GRD-28": (
        lambda: require_experts_resident(ExpertResidency(30720, 32 << 30, 3900 << 20, 9, 29 << 30)),
        "30720 weights of 34359738368 bytes",
    ),
    "GRD-43": (
        lambda: require_polled(None, "output 0", cached_allowed=True),
        "output 0 is outside NPU memory",
    ),
    "GRD-49": (lambda: CoreShare(3, 1000, 1000), "1000 weight bytes for 3 cores that read 1000 each"),
    "GRD-44": (lambda: checked_job_flags(uapi.JobFlag.PC | uapi.JobFlag.FENCE_OUT), "job flags 0x11"),
}

ENFORCED = sorted(guard.id for guard in GUARDS.values() if guard.enforced_in)
REFUSING = [guard_id for guard_id in ENFORCED if GUARDS[guard_id].reaction is not Reaction.WARN]


def test_all_sixty_rows_are_there_in_order():
    assert list(GUARDS) == [f"GRD-{number:02}" for number in range(1, 61)]


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
def test_every_row_says_something_in_every_field(guard):
    for text in (guard.place, guard.condition, guard.consequence, guard.action, guard.evidence):
        assert text == text.strip() and text and "|" not in text and "\n" not in text


def test_every_enforced_guard_has_a_trigger():
    assert sorted(TRIGGERS) == REFUSING


@pytest.mark.parametrize(
    "place",
    [place for guard in GUARDS.values() for place in (guard.enforced_in, guard.stands_in) if place],
)
def test_what_a_row_names_exists(place):
    module, _, path = place.partition(":")
    found = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)


def test_a_row_that_names_a_stand_in_says_how_and_none_says_two_things():
    for guard in GUARDS.values():
        assert not guard.stands_in or guard.how, guard.id
        assert not (guard.enforced_in and guard.how), guard.id
        assert "|" not in guard.how and "\n" not in guard.how


@pytest.mark.parametrize("guard_id", REFUSING)
def test_the_guard_refuses_with_value_reason_and_evidence(guard_id):
    trigger, shown = TRIGGERS[guard_id]
    guard = GUARDS[guard_id]
    with pytest.raises(RefusedError) as caught:
        trigger()
    line = caught.value.line()
    assert caught.value.exit_code == ExitCode.REFUSED
    for part in (guard_id, shown, guard.consequence, guard.evidence, caught.value.do):
        assert part and part in line
    assert "\n" not in line


@pytest.mark.parametrize("domain", [-1, 16, 24])
def test_domains_the_kernel_does_not_have_are_refused(domain):
    with pytest.raises(RefusedError, match=f"GRD-09.*domain {domain},"):
        _allocate(domain=domain)


@pytest.mark.parametrize("mask", [0x3, 0x5, 0x6, 0x7, 0x9])
def test_several_cores_in_one_mask_are_refused(mask):
    with pytest.raises(RefusedError, match=f"GRD-01.*{mask:#x}"):
        checked_core_mask(mask, RK3588)


@pytest.mark.parametrize("mask", [0, 0x8])
def test_a_mask_without_a_core_of_the_chip_is_refused(mask):
    with pytest.raises(ValueError, match="rk3588 has 0x7"):
        checked_core_mask(mask, RK3588)


def test_masks_made_here_have_one_bit():
    assert [core_mask_for(core, RK3588) for core in range(3)] == [1, 2, 4]
    for core in (-1, 3):
        with pytest.raises(ValueError, match="cores 0 to 2"):
            core_mask_for(core, RK3588)


def test_fence_flags_pass_only_after_a_probe():
    fences = uapi.JobFlag.PC | uapi.JobFlag.FENCE_IN | uapi.JobFlag.FENCE_OUT
    assert checked_job_flags(fences, fences=True) == 0x19
    with pytest.raises(RefusedError, match=r"GRD-44.*0x19"):
        checked_job_flags(fences)
    assert checked_job_flags(uapi.JobFlag.PC | uapi.JobFlag.NONBLOCK | uapi.JobFlag.PINGPONG) == 0x7


def test_sram_is_refused_only_together_with_a_kernel_mapping():
    with pytest.raises(AssertionError, match="ioctl"):
        _allocate(uapi.DATA_FLAGS | uapi.MemFlag.TRY_ALLOC_SRAM)


@pytest.mark.parametrize(
    ("guard_id", "words"),
    [("GRD-25", "9.3 to 2.3 tokens per second"), ("GRD-26", "as many threads as there are big cores")],
)
def test_warnings_carry_value_and_reason(guard_id, words):
    assert GUARDS[guard_id].reaction is Reaction.WARN
    line = guards.warning(guard_id, seen="8 threads, 4 big cores")
    assert guard_id in line and "8 threads, 4 big cores" in line and words in line


def test_paths_that_do_not_exist_are_said_to_be_absent():
    absent = {guard.id for guard in GUARDS.values() if guard.enforced == "by absence"}
    assert {"GRD-45", "GRD-46", "GRD-47"} <= absent
    for guard_id in absent:
        assert GUARDS[guard_id].how, "absence has to be said"


def test_an_unknown_guard_is_a_defect():
    with pytest.raises(KeyError):
        guards.refuse("GRD-61", seen="x")


def test_the_page_is_printed_from_the_table():
    page = (DOCS / "guards.md").read_text()
    assert page == guards.markdown(), "run: python -m orkbench_tui.driver.guards > docs/guards.md"
    assert len(re.findall(r"^\| GRD-\d\d \|", page, re.M)) == 60
