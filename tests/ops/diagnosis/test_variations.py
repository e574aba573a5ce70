"""Rules over generated readings: other numbers, other forms, mixtures; the verdict follows the meaning."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ops.diagnosis.given import first, renderings, verdicts

PIDS = st.integers(1, 4_194_304)
NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,14}", fullmatch=True)
NODES = st.sampled_from(["fdab0000.npu", "27700000.npu", "fde40000.npu", "ff300000.npu", "22000000.npu"])


def hang(at: int, core: int = 0, form: str = "new", prefix: str = "RKNPU", raw: str = "0x0") -> str:
    tail = (
        f"irq status: 0x0, raw status: {raw}, require mask: 0x300, task counter: 0x0, elapsed time: 6175502us"
    )
    wait = f"[{at}.300140] {prefix}: failed to wait job, task counter: 0, flags: 0x5, ret = 0, elapsed time: 6144190us\n"
    if form == "old":
        return (
            wait
            + f"[{at}.331502] {prefix}: job timeout, flags: 0x0, {tail}\n[{at}.440011] {prefix}: soft reset\n"
        )
    return (
        wait
        + f"[{at}.331502] {prefix}: job timeout, flags: 0x0:\n[{at}.331510] {prefix}: \tcore {core} {tail}\n"
        + f"[{at}.440011] {prefix}: soft reset, num: 6\n"
    )


@given(
    st.integers(10, 9000),
    st.integers(0, 2),
    st.sampled_from(["old", "new"]),
    st.sampled_from(["RKNPU", "RKNPU3"]),
)
def test_one_hang_is_one_time_out(at: int, core: int, form: str, prefix: str) -> None:
    found = verdicts({"dmesg.txt": hang(at, core, form, prefix)})
    assert [v.kind for v in found] == ["npu-job-timeout"]
    assert found[0].facts["timeouts"] == 1 and found[0].facts["resets"] == 1
    if form == "new":
        assert found[0].facts["failed_cores"] == [core] and any(
            f"core {core}" in text for text in found[0].advice
        )


@given(st.integers(4, 30), st.integers(7, 40))
def test_many_hangs_are_a_storm_and_nothing_less(count: int, gap: int) -> None:
    log = "".join(hang(900 + gap * n, n % 3) for n in range(count))
    found = verdicts({"dmesg.txt": log})
    assert found[0].kind == "reset-storm" and found[0].facts["timeouts"] == found[0].facts["resets"] == count
    assert not {"npu-soft-reset", "npu-job-timeout", "healthy"} & {v.kind for v in found}


@given(st.integers(1, 40), st.integers(0, 20))
def test_resets_alone_are_no_hang(count: int, signals: int) -> None:
    resets = "".join(
        f"[{100 + n}.000002] RKNPU: soft reset, num: {4 if n % 2 else 6}\n" for n in range(count)
    )
    assert first({"dmesg.txt": resets}).kind == "npu-soft-reset"
    waits = "".join(
        f"[{700 + n}.1] RKNPU: failed to wait job, task counter: 0, flags: 0x5, ret = -512, elapsed time: {n}us\n"
        for n in range(signals)
    )
    found = verdicts({"dmesg.txt": waits})
    assert [v.kind for v in found] == (["npu-job-interrupted"] if signals else ["healthy"]) or not waits
    if signals:
        assert found[0].facts["interrupted"] == signals and found[0].facts["timeouts"] == 0


@given(
    NODES,
    st.integers(0, 15),
    st.integers(1, 8),
    st.lists(st.tuples(PIDS, NAMES), min_size=1, max_size=4, unique=True),
)
def test_a_stalled_domain_names_its_holders(
    node: str, domain: int, count: int, holders: list[tuple[int, str]]
) -> None:
    log = "".join(
        f"[{7210 + 6 * n}.1] RKNPU {node}: RKNPU: switch iommu domain time out, failed to switch iommu domain, id: {domain}\n"
        for n in range(count)
    )
    log += hang(7212 + 6 * count)  # the next job gets blamed
    fds = "# NPU node only\n" + "".join(f"{pid} {name} -> /dev/dri/renderD128\n" for pid, name in holders)
    found = verdicts({"dmesg.txt": log, "fds.txt": fds})
    assert [v.kind for v in found] == ["domain-switch-timeout"]
    assert found[0].facts["domain_ids"] == [domain] and found[0].facts["count"] == count
    advice = " ".join(found[0].advice)
    assert "SIGTERM" in advice and all(str(pid) in advice for pid, _ in holders)


@pytest.mark.parametrize(
    "form",
    [
        "{pid} {name} -> {node}",
        "lrwx------ 1 root root 64 Nov 1 04:36 /proc/{pid}/fd/7 -> {node}",
        "{name} {pid} root 7u CHR 226,129 0t0 500 {node}",
        "{node}: root {pid} F.... {name}",
    ],
)
@given(PIDS, NAMES, st.integers(1, 1 << 32))
@settings(max_examples=20)
def test_a_full_window_whatever_tool_listed_the_holders(form: str, pid: int, name: str, size: int) -> None:
    log = f"[402.7] RKNPU: failed to allocate IOVA: -12\n[402.8] RKNPU fdab0000.npu: RKNPU: rknpu_gem_get_pages: dma map {size} fail\n"
    verdict = first(
        {"dmesg.txt": log, "fds.txt": form.format(pid=pid, name=name, node="/dev/dri/card1") + "\n"}
    )
    assert verdict.kind == "iova-exhausted" and verdict.facts["failed_bytes"] == size
    assert verdict.facts["holder_pids"] == [pid]


def test_display_servers_are_no_holders_and_a_minor_tells_whose_node_is_whose() -> None:
    fds = "700 Xorg -> /dev/dri/card1\n812 llm -> /dev/dri/card0\n813 aux -> /dev/dri/renderD128\n"
    log = "[402.7] RKNPU: failed to allocate IOVA: -12\n"
    assert first({"dmesg.txt": log, "fds.txt": fds}).facts["holder_pids"] == [812, 813]
    minor = "[5.6] [drm] Initialized rknpu 0.9.6 20240322 for fdab0000.npu on minor 0\n"
    odd = fds.replace("Xorg", "some-kiosk")
    assert first({"dmesg.txt": minor + log, "fds.txt": odd}).facts["holder_pids"] == [812, 813]


@given(st.integers(1, 1 << 20), st.integers(1, 512))
def test_contiguous_memory(total_pages: int, request: int) -> None:
    log = (
        f"[12.5] cma: cma_alloc: reserved: alloc failed, req-size: {request} pages, ret: -12\n"
        f"[12.6] cma: number of available pages: 1@7=> 1 free of {total_pages} total pages\n"
    )
    verdict = first({"dmesg.txt": log})
    assert verdict.kind == "cma-exhausted" and verdict.facts["cma_total_kb"] == total_pages * 4
    assert verdict.facts["largest_request_pages"] == request and verdict.facts["cma_free_kb"] == 4


@given(
    PIDS,
    NAMES,
    st.integers(1, 1 << 30),
    st.sampled_from(["Out of memory: ", "Memory cgroup out of memory: "]),
)
def test_the_victim_is_read_out(pid: int, name: str, rss: int, head: str) -> None:
    verdict = first(
        {
            "dmesg.txt": f"[86.7] {head}Killed process {pid} ({name}) total-vm:9kB, anon-rss:{rss}kB, file-rss:0kB\n"
        }
    )
    assert verdict.kind == "oom-kill" and (verdict.facts["victim_pid"], verdict.facts["anon_rss_kb"]) == (
        pid,
        rss,
    )


@given(st.integers(2, 40), st.data())
def test_missing_parts_of_a_split_model(count: int, data: st.DataObject) -> None:
    names = [f"m-{n:05}-of-{count:05}.gguf" for n in range(1, count + 1)]
    missing = data.draw(st.sets(st.sampled_from(names), max_size=count - 1))
    document = {
        "given": f"models/{names[0]}",
        "directory": [{"name": name, "size": 10} for name in names if name not in missing],
        "header": {"magic": "GGUF", "version": 3, "tensor_count": 2, "kv": {"split.count": count}},
    }
    verdict = first({"gguf.json": json.dumps(document)})
    assert verdict.kind == ("gguf-corrupt" if missing else "healthy")
    if missing:
        assert verdict.facts["missing_parts"] == sorted(missing)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=3), st.booleans())
def test_any_real_load_is_healthy(loads: list[int], single: bool) -> None:
    text = (
        f"NPU load: {loads[0]:2d}%\n"
        if single
        else "NPU load:  " + " ".join(f"Core{i}: {v:2d}%," for i, v in enumerate(loads)) + "\n"
    )
    verdict = first({"load.txt": text})
    assert verdict.kind == "healthy" and verdict.facts["load"]["cores"] == (loads[:1] if single else loads)


@given(st.integers(429_000, 430_000) | st.integers(101, 99_999))
def test_impossible_loads_are_not_loads(value: int) -> None:
    verdict = first({"load.txt": f"NPU load:  Core0:  0%, Core1: {value}%, Core2:  0%,\n"})
    assert verdict.kind == "npu-load-invalid" and verdict.facts["raw_pct"][1] == value
    assert verdict.facts["cores"][1] == (None if value >= 429_000 else 100)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 99_999), st.booleans())
def test_patch_figures(failed: int, fine: int, line: int, fuzz: bool) -> None:
    text = "patching file drivers/rknpu/rknpu_gem.c\n"
    text += "".join(f"Hunk #{n} succeeded at {n}{' with fuzz 2' if fuzz else ''}.\n" for n in range(fine))
    text += "".join(f"Hunk #{fine + n} FAILED at {line + n}.\n" for n in range(failed))
    text += f"{failed} out of {failed + fine} hunks FAILED -- saving rejects to file x.rej\n"
    verdict = first({"patch-output.txt": text})
    assert verdict.kind == "patch-rejected"
    assert (verdict.facts["failed_hunks"], verdict.facts["total_hunks"], verdict.facts["fuzz"]) == (
        failed,
        failed + fine,
        fuzz,
    )
    assert str(line) in " ".join(verdict.advice)


def test_one_errno_has_several_causes() -> None:
    said = "E RKNN: [10:02:11.480] failed to allocate handle, ret: -1, errno: 12, errstr: Cannot allocate memory\n"
    alone = first({"stderr.txt": said})
    assert alone.kind == "import-no-memory" and alone.open_cause and len(alone.facts["candidates"]) > 1
    full = first({"stderr.txt": said, "dmesg.txt": "[402.7] RKNPU: failed to allocate IOVA: -12\n"})
    assert full.kind == "iova-exhausted" and not full.open_cause
    cached = "MemTotal: 32507904 kB\nMemFree: 412388 kB\nMemAvailable: 29811204 kB\nCached: 28990112 kB\n"
    memory = first({"stderr.txt": said, "meminfo.txt": cached})
    assert memory.kind == "import-no-memory" and not memory.open_cause and "page cache" in memory.title
    old = first(
        {
            "stderr.txt": said + "W rkllm: driver version is too low, please upgrade to 0.9.7.\n",
            "version.txt": "RKNPU driver: v0.8.8\n",
        }
    )
    assert old.kind == "driver-too-old"


def test_insmod_text_is_a_missing_driver_or_a_missing_group() -> None:
    said = {"stderr.txt": "E RKNN: failed to open rknpu module, need to insmod rknpu dirver!\n"}
    assert first(said).open_cause
    nodes = {"ls-dev-dri.txt": "crw-rw---- 1 root render 226, 129 Nov  1 04:36 renderD129\n"}
    user = {"id.txt": "uid=1000(a) gid=1000(a) groups=1000(a)\n"}
    assert first({**said, **nodes, **user}).kind == "permission-denied"
    gone = {"ls-dev-dri.txt": "ls: cannot access '/dev/dri': No such file or directory\n"}
    assert first({**said, **gone, **user}).kind == "driver-missing"


def test_newer_is_not_always_better() -> None:
    for version in ("0.9.2", "0.9.3"):
        verdict = first({"version.txt": f"RKNPU driver: v{version}\n", "dmesg.txt": hang(10) + hang(40, 1)})
        assert verdict.kind == "npu-job-timeout" and any(
            "newer is not always better" in text for text in verdict.advice
        )
    assert first({"version.txt": "RKNPU driver: v0.9.8\n"}).kind == "healthy"


def test_a_netbooted_board_does_not_run_what_boot_holds() -> None:
    boot = "armbianEnv.txt\nboot.scr\nImage\nvmlinuz-6.1.115-vendor-rk35xx\n"
    assert first({"ls-boot.txt": boot, "uname.txt": "6.1.115-vendor-rk35xx\n"}).kind == "healthy"
    for line in ("root=/dev/nfs nfsroot=10.0.0.1:/srv ip=dhcp", "BOOTIF=01-52-54-00-12-34-56 console=ttyS2"):
        verdict = first(
            {"ls-boot.txt": boot, "uname.txt": "6.1.115-vendor-rk35xx\n", "cmdline.txt": line + "\n"}
        )
        assert verdict.kind == "boot-layout-unknown" and verdict.facts["netboot"]
    assert first({"ls-boot.txt": boot, "uname.txt": "6.6.30-custom\n"}).kind == "boot-layout-unknown"


def test_the_newest_boot_is_judged_and_a_panic_before_it_is_not_forgotten() -> None:
    start = "[    0.000000] Booting Linux on physical CPU 0x0\n[    0.000000] Linux version 6.1.115\n"
    fine = start + "[    5.691367] [drm] Initialized rknpu 0.9.8 20240828 for fdab0000.npu on minor 1\n"
    assert first({"dmesg.txt": start + hang(900) + fine}).kind == "healthy"
    assert first({"dmesg.txt": fine + fine + hang(900)}).facts["timeouts"] == 1
    panic = "[    9.6] rockchip-pm-domain fdd90000.power-management:power-controller: failed to get ack on domain 'npu', target_idle = 0\n"
    verdict = first({"dmesg.txt": start + panic + fine})
    assert verdict.kind == "power-domain-failure" and verdict.facts["earlier_boot"]


def test_the_same_log_twice_counts_once() -> None:
    log = hang(214, 1)
    forms = renderings(log)
    both = first({"dmesg.txt": log, "journal.json": forms["journal"], "kern.log": forms["syslog"]})
    assert both.facts["timeouts"] == 1 and both.facts["resets"] == 1


def test_mixed_trouble_is_said_in_the_order_of_cause() -> None:
    log = hang(100) + "[86000.7] Out of memory: Killed process 7 (x) total-vm:1kB, anon-rss:2kB\n"
    sysfs = "/sys/class/devfreq/dmc/cur_freq: 528000000\n/sys/class/devfreq/dmc/max_freq: 2112000000\n"
    assert [v.kind for v in verdicts({"dmesg.txt": log, "sysfs.txt": sysfs})] == [
        "oom-kill",
        "npu-job-timeout",
        "governor-not-max",
    ]


def test_heat_comes_before_governors() -> None:
    sysfs = (
        "/sys/class/thermal/thermal_zone6/type: npu-thermal\n/sys/class/thermal/thermal_zone6/temp: 86200\n"
        "/sys/class/devfreq/fdab0000.npu/cur_freq: 800000000\n"
        "/sys/class/devfreq/fdab0000.npu/available_frequencies: 300000000 800000000 1000000000\n"
    )
    assert [v.kind for v in verdicts({"sysfs.txt": sysfs})] == ["thermal-throttle"]
    cool = sysfs.replace("86200", "46200")
    assert [v.kind for v in verdicts({"sysfs.txt": cool})] == ["governor-not-max"]
    fan = (
        "/sys/class/thermal/cooling_device4/type: pwm-fan\n/sys/class/thermal/cooling_device4/cur_state: 3\n"
    )
    assert first({"sysfs.txt": fan}).kind == "healthy"


def test_the_mainline_clock_is_never_to_be_set() -> None:
    log = "[    5.3] [drm] Initialized rocket 0.0.0 for rknn on minor 0\n"
    sysfs = "/sys/class/devfreq/fdab0000.npu/cur_freq: 200000000\n/sys/class/devfreq/fdab0000.npu/max_freq: 1000000000\n"
    for verdict in verdicts({"dmesg.txt": log, "sysfs.txt": sysfs}):
        if verdict.kind in ("governor-not-max", "opp-missing"):
            assert any("can hang the board" in text for text in verdict.advice)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "dmesg.txt",
                "fds.txt",
                "ps.txt",
                "load.txt",
                "sysfs.txt",
                "gguf.json",
                "id.txt",
                "ls-boot.txt",
                "meminfo.txt",
                "patch-output.txt",
                "stderr.txt",
                "image.json",
                "version.txt",
                "x.bin",
            ]
        ),
        st.text(max_size=300),
        max_size=5,
    )
)
@settings(max_examples=150)
def test_any_text_gives_a_verdict_and_no_exception(files: dict[str, str]) -> None:
    assert verdicts(files)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                        st.sampled_from(["given", "directory", "header", "kv", "magic", "version", "tensors", "type", "name", "size",
                                         "tensor_count", "split.count", "tokenizer.ggml.pre", "offset"]), inner, max_size=4),
                    max_leaves=12))  # fmt: skip
def test_any_model_document_gives_a_verdict(document: object) -> None:
    assert verdicts({"gguf.json": json.dumps({"header": document})})
    assert verdicts({"gguf.json": json.dumps(document)})


def test_jobs_that_never_reached_the_npu_starve_for_a_domain() -> None:
    wait = (
        "[ 1072.4] RKNPU: job: 0000000027ea22d2, mask: 0x1, job iommu domain id: 1, dev iommu domain id: {live}, wait_count: 1, "
        "continue wait: 1, commit elapse time: 0us, wait time: 66110433us, timeout: 60000000us\n"
    )
    log = wait.format(live=2) + hang(1073)
    assert [v.kind for v in verdicts({"dmesg.txt": log})] == ["domain-switch-timeout"]
    assert [v.kind for v in verdicts({"dmesg.txt": wait.format(live=1) + hang(1073)})] == ["npu-job-timeout"]


def test_contiguous_memory_gone_explains_a_failed_buffer_only_with_free_ram() -> None:
    said = {"stderr.txt": "E RKNN: failed to malloc npu memory, size: 16777216, flags: 0x2\n"}
    memory = "MemTotal: 8126464 kB\nMemFree: {free} kB\nMemAvailable: 7000000 kB\nCached: {cached} kB\nCmaTotal: 65536 kB\nCmaFree: 900 kB\n"
    assert (
        first({**said, "meminfo.txt": memory.format(free=5_000_000, cached=900_000)}).kind == "cma-exhausted"
    )
    assert (
        first({**said, "meminfo.txt": memory.format(free=100_000, cached=6_900_000)}).kind
        == "import-no-memory"
    )


@given(
    NODES,
    st.sampled_from(
        [
            "RKNPU: failed to get opp table",
            "dev_pm_opp_set_rate: failed to find current OPP for freq 18446744073709551615 (-34)",
            "dev_pm_opp_set_rate: failed to find OPP for freq 1000000000 (-34)",
            "_of_add_opp_table_v2: no supported OPPs",
            "current OPP not found",
        ]
    ),
)
def test_operating_points_of_the_npu_that_are_missing_are_named(node: str, said: str) -> None:
    found = first({"dmesg.txt": f"[    5.100000] RKNPU {node}: {said}\n"})
    assert found.kind == "opp-missing" and found.severity > 0
    other = first({"dmesg.txt": f"[    5.100000] cpu cpu0: {said.removeprefix('RKNPU: ')}\n"})
    assert other.kind == "healthy", "another device's operating points say nothing of the NPU"


def test_lines_of_a_working_start_that_sound_bad_are_noise() -> None:
    log = (
        "[   15.386381] RKNPU fdab0000.npu: RKNPU: rknpu iommu is enabled, using iommu mode\n"
        "[   15.387644] RKNPU fdab0000.npu: can't request region for resource [mem 0xfdab0000-0xfdabffff]\n"
        "[   15.388313] [drm] Initialized rknpu 0.9.8 20240828 for fdab0000.npu on minor 1\n"
        "[   15.388764] rockchip-pm-domain fd8d8000.power-management:power-controller: Looking up nputop-supply "
        "property in node /power-management@fd8d8000/power-controller failed\n"
        "[   15.749626] rockchip,bus bus-npu: Failed to get leakage\n"
    )
    assert [v.kind for v in verdicts({"dmesg.txt": log})] == ["healthy"]


def test_load_that_nobody_holds_may_be_the_last_second_s() -> None:
    load = "NPU load:  Core0: 61%, Core1: 61%, Core2: 61%,\n"
    found = first({"load.txt": load, "fds.txt": ""})
    assert found.kind == "healthy" and "ask again in two seconds" in found.advice[0]
    held = first({"load.txt": load, "fds.txt": "/proc/1420/fd/7 -> /dev/dri/renderD129 npud\n"})
    assert not any("ask again" in text for text in held.advice)
