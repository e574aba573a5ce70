"""The native side of compiled programs: refresh, poll, the calls in between, and cache maintenance."""

import errno
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.native.hot_path import HotPath, cache_clean, cache_clean_invalidate, cache_maintained
from orkbench_tui.native.library import instruction_set

PATTERN = 0x7FFFFFFF


def _path(source=None, results=2, mirrored=True):
    staging = np.zeros(256, np.uint8)
    memory = [np.full(16, 9, np.uint32) for _ in range(results)]
    mirrors = [np.zeros(64, np.uint8) if mirrored else None for _ in memory]
    path = HotPath(
        source=source,
        staging=staging,
        bells=[words[-1:] for words in memory],
        pattern=PATTERN,
        results=[words.view(np.uint8) for words in memory],
        mirrors=mirrors,
        cached_results=False,
    )
    return path, staging, memory, mirrors


def test_refresh_copies_a_and_writes_only_the_patterns():
    source = np.arange(256, dtype=np.uint8)
    path, staging, memory, _ = _path(source)
    path.refresh()
    np.testing.assert_array_equal(staging, source)
    for words in memory:
        assert words[-1] == PATTERN and (words[:-1] == 9).all()


def test_an_activation_in_place_is_left_alone():
    path, staging, _, _ = _path(None)
    staging[:] = 5
    path.refresh()
    assert (staging == 5).all()


def test_poll_waits_for_every_bell_then_copies():
    path, _, memory, mirrors = _path()
    path.refresh()

    def ring():
        time.sleep(0.02)
        memory[1][:] = 3
        time.sleep(0.02)
        memory[0][:] = 4

    thread = threading.Thread(target=ring)
    thread.start()
    assert path.poll(5_000_000_000) == 0
    thread.join()
    assert (mirrors[0].view(np.uint32) == 4).all() and (mirrors[1].view(np.uint32) == 3).all()
    assert path.elapsed_ns > 10_000_000 and path.looks > 2


def test_a_bell_that_never_rings_is_a_time_out_after_the_window():
    path, _, memory, mirrors = _path()
    path.refresh()
    memory[1][:] = 3
    start = time.monotonic()
    assert path.poll(30_000_000) == -errno.ETIMEDOUT
    assert 0.03 <= time.monotonic() - start < 5
    assert not mirrors[1].any(), "nothing is copied without a result"


def test_a_result_without_a_mirror_stays_where_it_is():
    path, _, memory, _ = _path(mirrored=False)
    path.refresh()
    for words in memory:
        words[:] = 1
    assert path.poll(1_000_000) == 0


def test_run_syncs_submits_and_polls_in_this_order():
    path, _, memory, mirrors = _path(np.ones(256, np.uint8))
    calls = []

    def call(fd, request, pointer):
        calls.append((fd, request))
        if request == 0x22:
            for words in memory:
                words[:] = 6
        return 0

    path.attach(5, sync=(0x11, bytearray(8)), submit=(0x22, bytearray(8)), maintain_cache=False, call=call)
    assert path.run(1_000_000_000) == 0
    assert calls == [(5, 0x11), (5, 0x22)]
    assert (mirrors[0].view(np.uint32) == 6).all()


def test_where_caches_are_maintained_here_the_sync_is_not_called():
    path, _, memory, _ = _path()
    calls = []

    def call(fd, request, pointer):
        calls.append(request)
        for words in memory:
            words[:] = 6
        return 0

    path.attach(5, sync=(0x11, bytearray(8)), submit=(0x22, bytearray(8)), maintain_cache=True, call=call)
    assert path.run(1_000_000_000) == 0
    assert calls == [0x22]


@pytest.mark.parametrize("failing", [0x11, 0x22])
def test_a_failing_call_ends_the_run_with_its_errno(failing):
    path, _, _, _ = _path()
    seen = []

    def call(fd, request, pointer):
        seen.append(request)
        return -errno.EIO if request == failing else 0

    path.attach(5, sync=(0x11, bytearray(8)), submit=(0x22, bytearray(8)), maintain_cache=False, call=call)
    assert path.run(1_000_000) == -errno.EIO
    assert seen[-1] == failing


def test_the_system_s_ioctl_is_called_where_nothing_stands_in():
    with Path("/dev/null").open("rb") as null:
        path, _, _, _ = _path()
        path.attach(
            null.fileno(), sync=(0x11, bytearray(64)), submit=(0x22, bytearray(64)), maintain_cache=False
        )
        assert path.run(1_000_000) == -errno.ENOTTY


def test_cache_maintenance_changes_no_byte():
    data = np.random.default_rng(0).integers(0, 256, 10_007, dtype=np.uint8)
    kept = data.copy()
    for part in (data, data[1:], data[63:65], data[:0]):
        cache_clean(part)
        cache_clean_invalidate(part)
    np.testing.assert_array_equal(data, kept)
    assert cache_maintained() is instruction_set().startswith("neon")
