"""Model files with a tensor type, tokenizer or template this program cannot use."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.model_header import TYPE_SAYS, given_name, metadata, model_header, tensors
from orkbench_tui.ops.diagnosis.verdict import Verdict
from orkbench_tui.ops.diagnosis.wording import make
from orkbench_tui.plain_text import one_line

__all__ = ["chat_template", "tensor_type", "tokenizer"]


def _types(evidence: Evidence) -> list[str]:
    found = [str(t[k]) for t in tensors(evidence) for k in ("type", "ggml_type", "dtype") if k in t]
    for source in (evidence.model or {}, model_header(evidence)):
        for key in ("tensor_types", "types"):
            value = source.get(key)
            if isinstance(value, dict):
                found += [str(name) for name in value]
            elif isinstance(value, list):
                found += [
                    str(item.get("type", "")) if isinstance(item, dict) else str(item) for item in value
                ]
    return [name for name in dict.fromkeys(found) if name]


def _known_type(name: str, evidence: Evidence) -> bool:
    support = evidence.support
    if not support.tensor_types:
        return True
    if re.fullmatch(r"\d{1,6}", name):
        return int(name) in support.tensor_types
    return name.upper().removeprefix("GGML_TYPE_") in support.tensor_type_names


def tensor_type(evidence: Evidence) -> Iterator[Verdict]:
    unknown = [name for name in _types(evidence) if not _known_type(name, evidence)]
    said = [
        line
        for line in evidence.said(TYPE_SAYS)
        if not re.search(r"(?i)tokenizer|file ?(?:system )?type|module|mount|media|mime", line)
    ]
    if not unknown and not said:
        return
    numbers = evidence.support.type_names
    named = [*unknown, *[m for line in said for m in re.findall(r"(?i)type[ :=_']+(\w+)", line)][:3]]
    named = [
        f"{name} ({numbers[int(name)]})" if name.isdigit() and int(name[:6]) in numbers else name
        for name in named
    ]
    tensor = next((m[1] for line in said if (m := re.search(r"tensor '([^']{1,80})'", line))), "")
    tensor = tensor or next(
        (
            str(t.get("name"))
            for t in tensors(evidence)
            for k in ("type", "ggml_type")
            if str(t.get(k)) in unknown
        ),
        "",
    )
    yield make(
        "gguf-unsupported-type",
        f"tensor type {', '.join(dict.fromkeys(named)) or 'unknown'} cannot be read here"
        + (f" ({one_line(tensor, 60)})" if tensor else ""),
        evidence=[*said[:3], *[f"type {name}" for name in unknown[:6]]],
        advice=(
            f"type {', '.join(dict.fromkeys(named)) or 'unknown'}: take another quantization of the same model: Q4_K_M, Q8_0 or F16 files are read everywhere",
            "or quantize it again from the F16 or BF16 file with a current llama.cpp; types that were removed (Q4_0_4_4 and the like) "
            "come back as Q4_0",
            "the file is not damaged: downloading it again changes nothing",
        ),
        refuse=("guess another type for the tensor", "report the model as loaded", "call the file corrupt"),
        facts={"types": list(dict.fromkeys(named)), "tensor": tensor or None},
    )


_TOKENIZER_SAYS = r"(?:unknown|unrecognized) pre-?tokenizer|unknown tokenizer|unsupported tokenizer|tokenizer.*(?:not (?:supported|found|known)|missing|unknown)|error loading model vocabulary|cannot find tokenizer"


def tokenizer(evidence: Evidence) -> Iterator[Verdict]:
    keys = metadata(evidence)
    said = evidence.said(_TOKENIZER_SAYS)
    model = pre = None
    if keys is not None:
        model, pre = keys.get("tokenizer.ggml.model"), keys.get("tokenizer.ggml.pre")
    quoted = next((m[1] for line in said if (m := re.search(r"['\"]([^'\"]{1,64})['\"]", line))), None)
    support = evidence.support
    unknown = isinstance(pre, str) and bool(support.tokenizers) and pre not in support.tokenizers
    if isinstance(model, str) and model != "gpt2" and pre is None:
        unknown = bool(support.tokenizer_models) and model not in support.tokenizer_models
    if isinstance(model, str) and support.tokenizer_models and model not in support.tokenizer_models:
        unknown = True
    absent = keys is not None and model == "gpt2" and pre is None
    if not (said or unknown or absent):
        return
    name = quoted or (
        str(pre) if pre is not None else str(model) if model is not None and not absent else None
    )
    yield make(
        "tokenizer-unknown",
        f"tokenizer {one_line(name, 40)!r} is not known here"
        if name
        else "the file does not name how its text is cut into tokens",
        evidence=[
            *said[:3],
            f"tokenizer.ggml.model = {model}" if keys is not None else "",
            f"tokenizer.ggml.pre = {pre}" if keys is not None else "",
        ],
        advice=(
            f"tokenizer {one_line(name, 40)!r} is not implemented here" if name else "",
            "tokenizer.ggml.pre names how text is cut before merging; a wrong guess gives readable text and wrong tokens, so nothing is "
            "guessed"
            + (f"; known here: {', '.join(sorted(support.tokenizers))}" if support.tokenizers else ""),
            "take a newer conversion of the model (the key was added in 2024), or convert it again with a current llama.cpp",
            "a newer version of this program may know it: the name above is what to look for in the change log",
        ),
        refuse=("guess a tokenizer (default)", "report perplexity or answers made with another tokenizer"),
        facts={"tokenizer": name, "tokenizer_model": model, "tokenizer_pre": pre},
    )


_TEMPLATE_SAYS = r"chat template.*(?:missing|not found|absent|not supported|unknown)|(?:no|without|missing).*chat[_ ]template|does not (?:have|contain|include).*chat[_ ]template"


def chat_template(evidence: Evidence) -> Iterator[Verdict]:
    keys = metadata(evidence)
    said = evidence.said(_TEMPLATE_SAYS)
    whole = keys is not None and any(key.startswith("tokenizer.") for key in keys)
    lacking = keys is not None and whole and not str(keys.get("tokenizer.chat_template") or "").strip()
    if keys is not None and str(keys.get("tokenizer.chat_template") or "").strip():
        return
    if not (said or lacking):
        return
    name = str(keys.get("general.name") or keys.get("general.basename") or "") if keys else ""
    base = bool(re.search(r"(?i)\bbase\b", f"{name} {given_name(evidence)}"))
    yield make(
        "chat-template-missing",
        "the model file carries no chat template" + (": a base model" if base else ""),
        evidence=[*said[:3], f"{given_name(evidence)}: no tokenizer.chat_template" if lacking else ""],
        advice=(
            "take an instruct file that carries its template, or write the publisher's own one (Jinja; chat_template of tokenizer_config.json) into a "
            "copy of this file",
            "a base model has none by design: use completion (`ork run complete`) instead of chat",
            "a template of another model answers, but badly: do not judge the model by it",
        ),
        refuse=("pick a template of another model silently (such as chatml)",),
        facts={"file": given_name(evidence) or None, "base_model": base or None},
    )
