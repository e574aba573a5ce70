"""Questions the timing model answers about what nobody has built: each with its figures, and figures of one's own.

Nothing here decides how anything runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from orkbench_tui.driver.timing.asymmetric import sizing
from orkbench_tui.driver.timing.core_split import split_what_if
from orkbench_tui.driver.timing.hypotheses import closed
from orkbench_tui.driver.timing.published import figure
from orkbench_tui.driver.timing.shapes import REFERENCE_MODELS
from orkbench_tui.driver.timing.verification import verification
from orkbench_tui.driver.timing.viability import SLOWER_MOST, WORSE_MOST, viability
from orkbench_tui.errors import UsageError

__all__ = ["WHAT_IFS", "Answer", "Knob", "WhatIf", "answer", "asked", "given_figures"]

Cell = str | float


@dataclass(frozen=True, slots=True)
class Knob:
    """A figure that goes in. ``standing`` says where the default is from: published, derived or assumed."""

    default: float
    standing: str
    doc: str
    least: float = 0.0
    most: float = math.inf
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """``label`` is that of the figures in the rows; ``notes`` say what they mean."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    label: str = "predicted"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """``known`` is what its sources say of the matter."""

    name: str
    question: str
    known: str
    compute: Callable[[Mapping[str, float]], Answer]
    knobs: Mapping[str, Knob] = field(default_factory=dict)


def _core_split(given: Mapping[str, float]) -> Answer:
    rows = []
    for handoffs in dict.fromkeys((int(given["handoffs"]), 2)):
        found = split_what_if(1e9 * given["int4_s"], 1e9 * given["int8_s"], handoffs)
        times = (found.alternating / 1e9, found.static / 1e9, found.dynamic / 1e9)
        rows.append((handoffs, *times, found.best))
    return Answer(
        ("handoffs", "alternating s", "static s", "dynamic s", "least"),
        tuple(rows),
        (
            "alternating: all cores do both, with a reset at each handoff; static: two cores int4, one int8; "
            "dynamic: all cores take what is left, with two resets",
        ),
    )


def _verification(given: Mapping[str, float]) -> Answer:
    drafts = int(given["drafts"])
    found = [
        (name, verification(model, drafts, given["acceptance"])) for name, model in REFERENCE_MODELS.items()
    ]
    return Answer(
        ("model", "rows", "forward ms", "one row ms", "tokens a step", "times faster"),
        tuple(
            (name, each.rows, each.forward / 1e6, each.one_row / 1e6, each.tokens, each.gain)
            for name, each in found
        ),
        ("time on the NPU of the matmuls alone: drafting, attention and sampling come on top",),
    )


_ARMS: Mapping[str, tuple[str, float]] = {
    "int4, grouped": ("RES-15 grouped", 16),
    "int4, grouped, rotated": ("RES-15 grouped, rotated", 16),
    "int4, per channel": ("RES-15 channel", 1),
    "int4, per channel, rotated": ("RES-15 channel, rotated", 1),
}


def _precision(given: Mapping[str, float]) -> Answer:
    base = given["baseline"]
    arms = {name: (submits, figure(key).value) for name, (key, submits) in _ARMS.items()}
    if given["perplexity"]:
        arms["given"] = (given["submits"], given["perplexity"])
    rows = []
    for name, (submits, perplexity) in arms.items():
        found = viability(submits, perplexity, base)
        verdict = "worth its wiring" if found.viable else f"no: {', '.join(found.reasons)}"
        rows.append((name, submits, perplexity, perplexity / base, verdict))
    return Answer(
        ("precision", "submits", "perplexity", "times base", "verdict"),
        tuple(rows),
        (
            f"the bar: at most {SLOWER_MOST:g} times the submits of int8 and {WORSE_MOST:g} times the perplexity of "
            "the baseline; the verdicts follow from it, a row `given` is yours",
        ),
        label="published",
    )


def _asymmetric(given: Mapping[str, float]) -> Answer:
    found = {cores: sizing(given["parameters"], given["active"], cores) for cores in (1, 2, 3, 4)}
    one = found[1]
    return Answer(
        ("CPU cores", "waits for", "GB/s", "tokens/s at most"),
        tuple(
            (cores, each.bound.bound, each.bound.rate, each.bound.tokens_per_s)
            for cores, each in found.items()
        ),
        (
            f"a token streams {one.token_bytes / 1e6:.4g} MB of 4-bit weights; the NPU's int8 copy takes "
            f"{one.npu_bytes / 1e9:.4g} GB, {one.windows} of its 4 GiB windows",
        ),
    )


def _known(name: str) -> str:
    row = closed(name)
    return f"{row.evidence} ({row.source}); open again with: {row.unless}"


_ALL = (
    WhatIf(
        "core-split",
        "int4 on two cores and int8 on the third, instead of all cores changing between the two?",
        _known("core-split"),
        _core_split,
        {
            "int4_s": Knob(2.0, "assumed", "seconds of int4 work on one core"),
            "int8_s": Knob(1.0, "assumed", "seconds of int8 work on one core"),
            "handoffs": Knob(160, "published", "changes of precision in a pass", most=1e6, whole=True),
        },
    ),
    WhatIf(
        "verification",
        "several drafted tokens checked in one forward of few rows, instead of one row a token?",
        "not built; a forward of few rows waits for the same weights as one row",
        _verification,
        {
            "drafts": Knob(3, "assumed", "tokens drafted before each check", most=63, whole=True),
            "acceptance": Knob(0.8, "assumed", "chance that a drafted token is right", most=1.0),
        },
    ),
    WhatIf(
        "precision",
        "another precision on the NPU: near int8 in speed and near the float model in perplexity?",
        "speed comes first: accuracy is not worth wiring for what stays slow (roadmap tier 4)",
        _precision,
        {
            "baseline": Knob(
                figure("RES-15 CPU Q8").value, "published", "perplexity to compare with", least=1e-9
            ),
            "submits": Knob(1.0, "assumed", "submits of one matmul in a precision of your own", least=1e-9),
            "perplexity": Knob(0.0, "assumed", "perplexity of a precision of your own; 0 leaves it out"),
        },
    ),
    WhatIf(
        "asymmetric",
        "prompts from int8 weights on the NPU and tokens from 4-bit weights on the CPU, in one model?",
        "no such model exists; sizes of a published draft",
        _asymmetric,
        {
            "parameters": Knob(2.1e9, "published", "weights of the model", least=1.0, most=1e13),
            "active": Knob(6e8, "published", "weights a token goes through", least=1.0, most=1e13),
        },
    ),
)

WHAT_IFS: Mapping[str, WhatIf] = {row.name: row for row in _ALL}


def asked(word: str) -> list[WhatIf]:
    """The question of a name, all for ``.``. Raises UsageError."""
    if word == ".":
        return list(WHAT_IFS.values())
    if word not in WHAT_IFS:
        raise UsageError(f"--what-if {word!r}", why=f"allowed: {', '.join(WHAT_IFS)}, or . for all")
    return [WHAT_IFS[word]]


def given_figures(question: WhatIf, texts: Sequence[str]) -> dict[str, float]:
    """The question's figures, those of ``NAME=NUMBER`` texts in place of the defaults. Raises UsageError."""
    figures = {name: knob.default for name, knob in question.knobs.items()}
    for text in texts:
        name, equals, number = text.partition("=")
        knob = question.knobs.get(name)
        if knob is None or not equals:
            known = ", ".join(f"{name}=NUMBER ({knob.doc})" for name, knob in question.knobs.items())
            raise UsageError(f"--given {text!r}", why=f"{question.name} takes {known}")
        try:
            value = float(number)
        except ValueError:
            raise UsageError(f"--given {text!r}", why="is not a number") from None
        if not math.isfinite(value) or not knob.least <= value <= knob.most or (knob.whole and value % 1):
            kind = "whole numbers" if knob.whole else "numbers"
            raise UsageError(f"--given {text!r}", why=f"allowed: {kind} from {knob.least:g} to {knob.most:g}")
        figures[name] = value
    return figures


def answer(question: WhatIf, texts: Sequence[str] = ()) -> tuple[dict[str, float], Answer]:
    """The figures a question was asked with, and its answer.

    Raises:
        UsageError: figures it cannot take, alone or together.
    """
    figures = given_figures(question, texts)
    try:
        return figures, question.compute(figures)
    except ValueError as error:
        raise UsageError(f"--given for {question.name}", why=str(error)) from error
