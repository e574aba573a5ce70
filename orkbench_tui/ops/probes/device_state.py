"""Whether an NPU carries a fault of its past: what it answers then is about the fault and not about the question.

A packing error was once hunted for in code that was right: the device had been left behind by a wedge.
Only a boot makes it clean again; a reset does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from enum import StrEnum

from orkbench_tui.errors import RefusedError
from orkbench_tui.ops.kernel_log.classify import classify_all
from orkbench_tui.ops.kernel_log.counting import LogFacts, count
from orkbench_tui.ops.kernel_log.renderings import parse_log

__all__ = ["Event", "State", "after", "require_clean_device", "state_of", "state_of_log"]


class State(StrEnum):
    CLEAN = "clean"
    DIRTY = "dirty"
    UNKNOWN = "unknown"


class Event(StrEnum):
    BOOT = "boot"
    FAULT = "fault"
    RESET = "reset"
    JOB = "job"


_NEXT = {Event.BOOT: State.CLEAN, Event.FAULT: State.DIRTY}
# What the kernel log tells of the NPU that outlives the job it happened to.
_FAULTS = (
    "hangs", "aborts", "uncommitted", "switch_timeouts", "iova_failures", "page_faults", "unmap_warnings",
    "resets_forced",
)  # fmt: skip
assert set(_FAULTS) <= {field.name for field in fields(LogFacts)}


def after(state: State, event: Event) -> State:
    """The state an event leaves; jobs and resets change nothing."""
    return _NEXT.get(event, state)


def state_of(facts: LogFacts, *, log_given: bool) -> tuple[State, str]:
    """The state and what tells it. A log that no longer begins at the boot may have lost a fault."""
    if not log_given:
        return State.UNKNOWN, "the kernel log is not readable"
    seen = [f"{name.replace('_', ' ')} {count}" for name in _FAULTS if (count := getattr(facts, name))]
    state = State.UNKNOWN if facts.lower_bound else after(State.UNKNOWN, Event.BOOT)
    for _ in seen:
        state = after(state, Event.FAULT)
    if seen:
        return state, ", ".join(seen)
    return state, "no fault in what the log still holds" if facts.lower_bound else "no fault since boot"


def state_of_log(records: Sequence[bytes]) -> tuple[State, str]:
    """The same from the kernel's own records, none where they may not be read."""
    facts = count(classify_all(parse_log(b"".join(records))))
    return state_of(facts, log_given=bool(records))


def require_clean_device(state: State, seen: str, *, on_board: bool, consent: bool) -> str:
    """A line for the user where nobody can tell, else "".

    Raises:
        RefusedError: a board whose NPU had a fault since its boot, and nobody said to go on.
    """
    if not on_board or state is State.CLEAN:
        return ""
    if state is State.DIRTY and not consent:
        raise RefusedError(
            "the NPU had a fault since boot",
            why=f"{seen}; what it answers now may be that fault's doing",
            do="power cycle the board and ask again, or go on with --consent",
        )
    return f"the NPU may carry a fault of its past: {seen}"
