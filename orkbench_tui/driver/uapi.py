"""The rknpu kernel ABI as data: ioctl numbers, structures, flags, actions.

Sizes and offsets are those of driver 0.9.x; drivers up to 0.8.x use a 40-byte MEM_CREATE and give
two SUBMIT fields another meaning (docs/fidelity.md, "driver versions"). The DRM core copies
``min(user size, kernel size)`` bytes and fills with zeros, so the 0.9 structures work on both.

Structures are ctypes little-endian mirrors: ``bytearray(struct)`` gives the bytes for an ioctl and
``Struct.from_buffer(array)`` reads the answer in place.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum, IntFlag

_u32, _s32, _u64, _s64 = ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint64, ctypes.c_int64


def _iowr(kind: str, number: int, size: int) -> int:
    return 0xC000_0000 | size << 16 | ord(kind) << 8 | number


def _iow(kind: str, number: int, size: int) -> int:
    return 0x4000_0000 | size << 16 | ord(kind) << 8 | number


class MemCreate(ctypes.LittleEndianStructure):
    """RKNPU_MEM_CREATE. ``handle`` 0 allocates; an existing handle asks for its addresses."""

    _fields_ = (
        ("handle", _u32),
        ("flags", _u32),
        ("size", _u64),
        ("obj_addr", _u64),
        ("dma_addr", _u64),
        ("sram_size", _u64),
        ("iommu_domain_id", _s32),
        ("core_mask", _u32),
    )


class MemMap(ctypes.LittleEndianStructure):
    """RKNPU_MEM_MAP: ``offset`` is the fake offset to hand to mmap."""

    _fields_ = (("handle", _u32), ("reserved", _u32), ("offset", _u64))


class MemDestroy(ctypes.LittleEndianStructure):
    _fields_ = (("handle", _u32), ("reserved", _u32), ("obj_addr", _u64))


class MemSync(ctypes.LittleEndianStructure):
    _fields_ = (("flags", _u32), ("reserved", _u32), ("obj_addr", _u64), ("offset", _u64), ("size", _u64))


class Action(ctypes.LittleEndianStructure):
    """RKNPU_ACTION: ``flags`` is the action code, ``value`` goes in and comes out."""

    _fields_ = (("flags", _u32), ("value", _u32))


class Task(ctypes.LittleEndianStructure):
    """One descriptor of the task array; 40 bytes, packed, in a KERNEL_MAPPING buffer."""

    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (
        ("flags", _u32),
        ("op_idx", _u32),
        ("enable_mask", _u32),
        ("int_mask", _u32),
        ("int_clear", _u32),
        ("int_status", _u32),
        ("regcfg_amount", _u32),
        ("regcfg_offset", _u32),
        ("regcmd_addr", _u64),
    )


class SubcoreTask(ctypes.LittleEndianStructure):
    _fields_ = (("task_start", _u32), ("task_number", _u32))


SUBCORE_SLOTS = 5


class Submit(ctypes.LittleEndianStructure):
    _fields_ = (
        ("flags", _u32),
        ("timeout", _u32),
        ("task_start", _u32),
        ("task_number", _u32),
        ("task_counter", _u32),
        ("priority", _s32),
        ("task_obj_addr", _u64),
        ("iommu_domain_id", _u32),
        ("reserved", _u32),
        ("task_base_addr", _u64),
        ("hw_elapse_time", _s64),
        ("core_mask", _u32),
        ("fence_fd", _s32),
        ("subcore_task", SubcoreTask * SUBCORE_SLOTS),
    )


class DrmVersion(ctypes.Structure):
    """DRM_IOCTL_VERSION (64-bit layout); the three pointers are filled by the caller."""

    _fields_ = (
        ("version_major", ctypes.c_int),
        ("version_minor", ctypes.c_int),
        ("version_patchlevel", ctypes.c_int),
        ("name_len", ctypes.c_size_t),
        ("name", ctypes.c_uint64),
        ("date_len", ctypes.c_size_t),
        ("date", ctypes.c_uint64),
        ("desc_len", ctypes.c_size_t),
        ("desc", ctypes.c_uint64),
    )


class GemClose(ctypes.LittleEndianStructure):
    _fields_ = (("handle", _u32), ("pad", _u32))


class PrimeHandle(ctypes.LittleEndianStructure):
    _fields_ = (("handle", _u32), ("flags", _u32), ("fd", _s32))


class DmaBufSync(ctypes.LittleEndianStructure):
    """DMA_BUF_IOCTL_SYNC: brackets around what the CPU does with a dma-buf."""

    _fields_ = (("flags", _u64),)


class DmaHeapAlloc(ctypes.LittleEndianStructure):
    _fields_ = (("len", _u64), ("fd", _u32), ("fd_flags", _u32), ("heap_flags", _u64))


RKNPU_ACTION = _iowr("d", 0x40, ctypes.sizeof(Action))
RKNPU_SUBMIT = _iowr("d", 0x41, ctypes.sizeof(Submit))
RKNPU_MEM_CREATE = _iowr("d", 0x42, ctypes.sizeof(MemCreate))
RKNPU_MEM_MAP = _iowr("d", 0x43, ctypes.sizeof(MemMap))
RKNPU_MEM_DESTROY = _iowr("d", 0x44, ctypes.sizeof(MemDestroy))
RKNPU_MEM_SYNC = _iowr("d", 0x45, ctypes.sizeof(MemSync))
DRM_IOCTL_VERSION = _iowr("d", 0x00, ctypes.sizeof(DrmVersion))
DRM_IOCTL_GEM_CLOSE = _iow("d", 0x09, ctypes.sizeof(GemClose))
DRM_IOCTL_PRIME_HANDLE_TO_FD = _iowr("d", 0x2D, ctypes.sizeof(PrimeHandle))
DRM_IOCTL_PRIME_FD_TO_HANDLE = _iowr("d", 0x2E, ctypes.sizeof(PrimeHandle))
DMA_HEAP_IOCTL_ALLOC = _iowr("H", 0x00, ctypes.sizeof(DmaHeapAlloc))
DMA_BUF_IOCTL_SYNC = _iow("b", 0x00, ctypes.sizeof(DmaBufSync))


def ioctl_number(request: int) -> int:
    """The command number the DRM core dispatches on (the size in the request is advisory)."""
    return request & 0xFF


class MemFlag(IntFlag):
    NON_CONTIGUOUS = 0x001
    CACHEABLE = 0x002
    WRITE_COMBINE = 0x004
    KERNEL_MAPPING = 0x008
    IOMMU = 0x010
    ZEROING = 0x020
    SECURE = 0x040
    DMA32 = 0x080
    TRY_ALLOC_SRAM = 0x100
    TRY_ALLOC_NBUF = 0x200
    IOMMU_LIMIT_IOVA_ALIGNMENT = 0x400


DATA_FLAGS = MemFlag.NON_CONTIGUOUS | MemFlag.CACHEABLE | MemFlag.IOMMU_LIMIT_IOVA_ALIGNMENT
"""0x403: activations, weights, outputs, register programs."""

TASK_FLAGS = DATA_FLAGS | MemFlag.KERNEL_MAPPING
"""0x40b: the task array, which the kernel reads through its own mapping."""


class SyncFlag(IntFlag):
    TO_DEVICE = 1
    FROM_DEVICE = 2


class DmaBufSyncFlag(IntFlag):
    """START before the CPU reads (with READ), END after it wrote (with WRITE)."""

    READ = 1
    WRITE = 2
    END = 4


class JobFlag(IntFlag):
    PC = 0x01
    NONBLOCK = 0x02
    PINGPONG = 0x04
    FENCE_IN = 0x08
    FENCE_OUT = 0x10


class ActionCode(IntEnum):
    GET_HW_VERSION = 0
    GET_DRV_VERSION = 1
    GET_FREQ = 2
    SET_FREQ = 3
    GET_VOLT = 4
    SET_VOLT = 5
    ACT_RESET = 6
    GET_BW_PRIORITY = 7
    SET_BW_PRIORITY = 8
    GET_BW_EXPECT = 9
    SET_BW_EXPECT = 10
    GET_BW_TW = 11
    SET_BW_TW = 12
    ACT_CLR_TOTAL_RW_AMOUNT = 13
    GET_DT_WR_AMOUNT = 14
    GET_DT_RD_AMOUNT = 15
    GET_WT_RD_AMOUNT = 16
    GET_TOTAL_RW_AMOUNT = 17
    GET_IOMMU_EN = 18
    SET_PROC_NICE = 19
    POWER_ON = 20
    POWER_OFF = 21
    GET_TOTAL_SRAM_SIZE = 22
    GET_FREE_SRAM_SIZE = 23
    GET_IOMMU_DOMAIN_ID = 24
    SET_IOMMU_DOMAIN_ID = 25


HW_VERSION_RK3588 = 0x4649_5245
"""Spells "FIRE"; what GET_HW_VERSION is reported to return on RK3588."""

VENDOR_TIMEOUT_MS = 6000
MAX_IOMMU_DOMAINS = 16
PAGE = 4096


def page_up(size: int) -> int:
    return (size + PAGE - 1) // PAGE * PAGE
