"""Probes of what a running chain does not allow: spinning, being redirected, and what it does: ending early."""

from __future__ import annotations

import time

from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.ops.probes.declaration import Answer, Bench, Control, Figure, Probe, Verdict
from orkbench_tui.ops.probes.work import exact, int8, loaded

__all__ = ["PROBES"]

_TASKS, _AT = 16, 8
_TRIES = 6
"""A run may be over before a change of it arrives; so often is it tried."""


def _all_outputs_come(bench: Bench) -> Control:
    done, right = _ended_early(bench, None)
    return Control(done == _TASKS and right, f"{done} of {_TASKS} outputs come when nobody halts the run")


def _ended_early(bench: Bench, at: int | None) -> tuple[int, bool]:
    """(tasks complete, all of those right) of 16 matmuls, halted after ``at`` at once."""
    npu, a, b = bench.npu, int8(64, 2048, 1), int8(1024, 2048, 2)
    wanted = exact(a, b)
    with loaded(npu, [b]) as weights, npu.doorbell() as bell:
        bell.build([ChainTask(weights[0], 64, a=a) for _ in range(_TASKS)])
        bell.begin()
        if at is not None:
            bell.halt(at)
        done = bell.end()
        right = all(bool((output == wanted).all()) for output in bell.outputs[:done])
    return done, right


def _halt(bench: Bench) -> Answer:
    counts: list[int] = []
    right = True
    while len(counts) < _TRIES and _AT + 1 not in counts:
        done, good = _ended_early(bench, _AT)
        counts.append(done)
        right = right and good
    rows = tuple((f"run {index + 1}", done) for index, done in enumerate(counts))
    if not right:
        verdict, why = Verdict.FAIL, "an output before the halt is wrong"
    elif _AT + 1 in counts:
        verdict, why = Verdict.PASS, f"{_AT + 1} of {_TASKS} outputs, as published"
    else:
        verdict, why = Verdict.INCONCLUSIVE, f"the run was over before the halt reached it: {counts} outputs"
    published = (Figure("outputs present", 9, "of 16", "published"),)
    return Answer(verdict, why, published, ("run", "outputs"), rows)


def _two_tasks_both_run(bench: Bench) -> Control:
    found = _looped(bench, loop=False)
    return Control(found[:2] == (True, True), "without the loop both outputs are right")


def _looped(bench: Bench, *, loop: bool) -> tuple[bool, bool, float]:
    """(first right, second right, us) of two tasks; with ``loop`` the first program leads to itself."""
    npu, a, parts = bench.npu, int8(1, 512, 3), [int8(64, 512, 4), int8(64, 512, 5)]
    with loaded(npu, parts) as weights:
        chain = npu.chain([ChainTask(weight, 1, a=a) for weight in weights])
        if loop:
            chain.linked.lead_to(0, 0)
        started = time.perf_counter_ns()
        chain.run()
        spent = (time.perf_counter_ns() - started) / 1e3
        first, second = (bool((o == exact(a, p)).all()) for o, p in zip(chain.outputs, parts, strict=True))
        chain.close()
    return first, second, spent


def _self_loop(bench: Bench) -> Answer:
    plain, looped = _looped(bench, loop=False), _looped(bench, loop=True)
    rows = (("straight", *plain), ("leads to itself", *looped))
    if looped[0] and not looped[1]:
        verdict, why = Verdict.PASS, "it completes after as many programs as were announced: nothing spins"
    else:
        verdict, why = Verdict.FAIL, "a loop does something else than run the first program twice"
    published = (Figure("self-loop", 132, "us", "published"), Figure("baseline", 72, "us", "published"))
    return Answer(
        verdict, why, published, ("chain", "first right", "second right", f"us ({bench.clock})"), rows
    )


def _appended_in_time(bench: Bench) -> Control:
    """Within what was announced a run can be led on: the link is read when a program ends."""
    done, right, taken = _appended(bench, reserve=1)
    return Control(
        taken and right, f"a task within the reserve was {'taken' if taken else 'too late'}, {done} outputs"
    )


def _appended(bench: Bench, *, reserve: int) -> tuple[int, bool, bool]:
    npu, a, b = bench.npu, int8(64, 2048, 6), int8(1024, 2048, 7)
    wanted = exact(a, b)
    with loaded(npu, [b]) as weights, npu.doorbell() as bell:
        bell.build([ChainTask(weights[0], 64, a=a) for _ in range(8)], reserve=reserve)
        bell.begin()
        try:
            taken = bell.append(ChainTask(weights[0], 64, a=a))
        finally:
            done = bell.end()
        right = all(bool((output == wanted).all()) for output in bell.outputs[:done])
    return done, right, taken


def _live_patch(bench: Bench) -> Answer:
    for _ in range(_TRIES):
        within, good, taken = _appended(bench, reserve=1)
        if taken:
            break
    try:
        _appended(bench, reserve=0)
        refused = False
    except OperandError:
        refused = True
    rows = (("within the count", within, taken), ("beyond the count", 0 if refused else None, not refused))
    if not refused or not good:
        verdict = Verdict.FAIL
        why = "a result is wrong" if refused else "a run can be led on beyond what was announced"
    elif not taken:
        verdict, why = Verdict.INCONCLUSIVE, "every run was over before the change arrived"
    else:
        verdict = Verdict.PASS if within == 9 else Verdict.FAIL
        why = "a run can be led on within the programs announced, and beyond them it is refused"
    return Answer(verdict, why, (), ("patch", "outputs", "taken"), rows)


PROBES = (
    Probe(
        name="halt",
        question="Can a running chain be ended early?",
        formula="outputs present after halt(8) of 16 tasks",
        rule="pass at 9 outputs, all right; inconclusive when the run is over too soon",
        positive="without a halt all 16 outputs must come",
        control=_all_outputs_come,
        ask=_halt,
        rows=("INV-143", "INV-145", "RES-44"),
    ),
    Probe(
        name="self-loop",
        question="Does a program that leads to itself keep the core busy?",
        formula="two tasks, the first linked to itself: which outputs come, and does it end",
        rule="pass when it ends and only the first output is there: the count bounds the run",
        positive="without the loop both outputs must be right",
        control=_two_tasks_both_run,
        ask=_self_loop,
        rows=("INV-139", "RES-43"),
        closed=("self-loop",),
        harm="gives the NPU a chain that leads to itself",
    ),
    Probe(
        name="live-patch",
        question="Can a running chain be led on?",
        formula="append a task to a run of 8, within and beyond the programs it began with",
        rule="pass when it is taken within the count, right, and refused beyond it",
        positive="a task within the reserve must be taken",
        control=_appended_in_time,
        ask=_live_patch,
        rows=("INV-140",),
        closed=("live-patch",),
    ),
)
