"""The families table of docs/models.md is printed from the data."""

from __future__ import annotations

from pathlib import Path

from orkbench_tui.runner.models.families import FAMILIES, Family, TensorRule

PAGE = Path(__file__).parents[3] / "docs" / "models.md"
BEGIN, END = "<!-- families: begin -->", "<!-- families: end -->"
_USUAL = {
    *(f"attn_{part}.weight" for part in ("norm", "q", "k", "v", "output")),
    *(f"ffn_{part}.weight" for part in ("norm", "gate", "up", "down")),
    *(f"{part}.weight" for part in ("token_embd", "output", "output_norm")),
}


def _tensor(rule: TensorRule) -> str:
    name = rule.pattern.removeprefix("blk.{layer}.")
    return f"`{name}`" + (" (optional)" if rule.optional else "")


def _attention(family: Family) -> str:
    if not family.attends:
        return "no attention: a scan"
    if family.scans:
        return "everything before, in the layers the file says; the others scan"
    if family.windows is None:
        return "everything before"
    windows = family.windows
    base = "" if windows.local_base is None else f" (rotary base {windows.local_base:g})"
    every = "every other layer" if windows.pattern == 2 else f"all but every {windows.pattern}th layer"
    return f"a window{base} in {every}"


def _notes(family: Family) -> str:
    parts = ["embedding scaled"] if family.scales_embedding else []
    if family.scaled:
        parts.append("embedding, residuals and logits scaled as the file says")
    if family.unrotated_every:
        parts.append(f"no rotation in every {family.unrotated_every}th layer")
    if family.rotary_switch:
        parts.append("no rotation where the file says so")
    if family.attention_cap:
        parts.append(f"scores capped at {family.attention_cap:g}")
    if family.logit_cap:
        parts.append(f"logits capped at {family.logit_cap:g}")
    elif family.capped:
        parts.append("soft caps where the file has them")
    return ", ".join(parts) or "–"


def families_table() -> str:
    """The table as markdown."""
    lines = [
        "| architecture | models | rotary pairs | gate | attention sees | tensors beside the usual | more |",
        "|---|---|---|---|---|---|---|",
    ]
    for family in FAMILIES.values():
        extra = [_tensor(r) for r in family.tensors if r.pattern.removeprefix("blk.{layer}.") not in _USUAL]
        cells = (
            f"`{family.name}`",
            family.models,
            family.pairing if family.attends else "–",
            {"silu": "SiLU", "gelu_tanh": "GELU (tanh)"}[family.gate],
            _attention(family),
            ", ".join(extra) or "–",
            _notes(family),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def test_the_page_has_the_table_of_the_data() -> None:
    shown = PAGE.read_text().partition(BEGIN)[2].partition(END)[0].strip()
    assert shown == families_table(), f"put this between the marks of {PAGE.name}:\n{families_table()}"
