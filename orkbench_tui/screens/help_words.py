"""What the words on the screens mean; the help page prints this table."""

from __future__ import annotations

__all__ = ["WORDS"]

WORDS: tuple[tuple[str, str], ...] = (
    ("BOARD SIM REPLAY", "source: silicon, the simulated board, a recording"),
    ("SIM fast, real", "pace of the simulated NPU: fast answers at once, real after its predicted time"),
    ("STALE", "no sample for three intervals: what you see is old, the state is not known"),
    ("NO BOARD", "the board's files do not answer; reconnects by itself; the last values are dimmed"),
    ("load %", "busy share of the last full second, from the driver"),
    (
        "load % of a SIM",
        "how long the simulated cores are busy on this host's clock: at pace fast that is this host's speed, "
        "not an RK3588's",
    ),
    ("mean, peak", "of the loads the plot shows"),
    ("irq/s", "job completions of an NPU core a second"),
    ("plot", "one column per sample, newest at the right, 0 to 100 %"),
    ("own cpu", "CPU time of ork-tui itself, in percent of one core"),
    ("hangs", "jobs that timed out, in the kernel log; the kernel resets the NPU after one"),
    ("interrupted", "jobs whose program got a signal while it waited; harmless (short: intr)"),
    (
        "switches",
        "changes of the IOMMU domain that timed out; domain_switch_timeouts in JSON (short: switch)",
    ),
    ("Resets >=n", "NPU resets in the kernel log; it no longer reaches back to boot: at least n"),
    ("d0 to d15", "IOMMU domains: 4 GiB of NPU addresses each"),
    ("buf", "buffers of a process in a domain"),
    ("hole", "largest free range in a domain: the largest buffer that still fits"),
    ("frag", "share of a domain's free addresses that lies outside its largest hole"),
    ("fds, memory", "how often a process has the NPU's node open; its resident memory"),
    ("jobs/s", "on cores: completions of an NPU core; on processes: jobs submitted"),
    ("sub/s", "jobs a process submits a second, as it reports; sub: since it started"),
    ("CMA", "memory the kernel keeps for devices that need it in one piece"),
    ("*", "on boards: the board the other pages show"),
    ("?", "not known; `ork board status --json` lists why"),
)
