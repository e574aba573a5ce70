"""Ioctl numbers and structure sizes against the published table."""

import ctypes

import pytest

from orkbench_tui.driver import uapi


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("RKNPU_ACTION", 0xC0086440),
        ("RKNPU_SUBMIT", 0xC0686441),
        ("RKNPU_MEM_CREATE", 0xC0306442),
        ("RKNPU_MEM_MAP", 0xC0106443),
        ("RKNPU_MEM_DESTROY", 0xC0106444),
        ("RKNPU_MEM_SYNC", 0xC0206445),
        ("DRM_IOCTL_VERSION", 0xC0406400),
        ("DRM_IOCTL_GEM_CLOSE", 0x40086409),
        ("DRM_IOCTL_PRIME_HANDLE_TO_FD", 0xC00C642D),
        ("DRM_IOCTL_PRIME_FD_TO_HANDLE", 0xC00C642E),
        ("DMA_HEAP_IOCTL_ALLOC", 0xC0184800),
        ("DMA_BUF_IOCTL_SYNC", 0x40086200),
    ],
)
def test_ioctl_numbers(name, number):
    assert getattr(uapi, name) == number


@pytest.mark.parametrize(
    ("structure", "size", "offsets"),
    [
        (
            uapi.MemCreate,
            48,
            {"size": 8, "obj_addr": 16, "dma_addr": 24, "iommu_domain_id": 40, "core_mask": 44},
        ),
        (uapi.MemSync, 32, {"obj_addr": 8, "offset": 16, "size": 24}),
        (uapi.Task, 40, {"int_mask": 12, "int_status": 20, "regcfg_amount": 24, "regcmd_addr": 32}),
        (
            uapi.Submit,
            104,
            {
                "task_obj_addr": 24,
                "iommu_domain_id": 32,
                "hw_elapse_time": 48,
                "core_mask": 56,
                "subcore_task": 64,
            },
        ),
    ],
)
def test_structure_layouts(structure, size, offsets):
    assert ctypes.sizeof(structure) == size
    for field, offset in offsets.items():
        assert getattr(structure, field).offset == offset


def test_named_flag_combinations():
    assert uapi.DATA_FLAGS == 0x403
    assert uapi.TASK_FLAGS == 0x40B
    assert uapi.page_up(1) == 4096 and uapi.page_up(8192) == 8192
