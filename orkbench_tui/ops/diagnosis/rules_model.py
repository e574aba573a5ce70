"""Model files: damaged, of an unknown type, without tokenizer or chat template."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.verdict import Verdict
from orkbench_tui.ops.diagnosis.wording import make
from orkbench_tui.plain_text import one_line

__all__ = ["chat_template", "corrupt", "tensor_type", "tokenizer"]

_SPLIT = re.compile(r"^(?P<stem>.+)-(?P<part>\d{5})-of-(?P<count>\d{5})\.gguf$")
_MAX_PARTS = 2000


def _header(evidence: Evidence) -> dict[str, Any]:
    model = evidence.model or {}
    header = model.get("header")
    return header if isinstance(header, dict) else model


def _keys(evidence: Evidence) -> dict[str, Any] | None:
    """Metadata keys, None where the capture has none."""
    for name in ("kv", "metadata", "key_values"):
        found = _header(evidence).get(name)
        if isinstance(found, dict):
            return found
    return None


def _listing(evidence: Evidence) -> dict[str, int | None]:
    """Names and sizes of the files beside the model."""
    found: dict[str, int | None] = {}
    model = evidence.model or {}
    for key in ("directory", "files", "folder"):
        entries = model.get(key)
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, str):
                found[entry.rsplit("/", 1)[-1]] = None
            elif isinstance(entry, dict) and isinstance(entry.get("name"), str):
                size = entry.get("size")
                found[entry["name"].rsplit("/", 1)[-1]] = size if isinstance(size, int) else None
    for item in evidence.entries:
        name = item.name.rsplit("/", 1)[-1]
        if name.endswith(".gguf"):
            found.setdefault(name, item.size)
    return found


def _given(evidence: Evidence) -> str:
    model = evidence.model or {}
    for key in ("given", "path", "file", "name"):
        if isinstance(model.get(key), str):
            return str(model[key]).rsplit("/", 1)[-1]
    return next((m[0] for line in evidence.output if (m := re.search(r"[\w.+-]+\.gguf", line[:4096]))), "")


_CORRUPT_SAYS = (
    r"failed to load GGUF split|invalid magic|not within the file bounds|corrupted or incomplete|unexpectedly reached end|"
    r"gguf_init_from_file.*(?:fail|invalid)|failed to read (?:magic|tensor|header|key)|wrong number of tensors|"
    r"(?:invalid|illegal) split|missing (?:split|shard)|tensor '[^']*' (?:is )?(?:missing|duplicated)|missing tensor|"
    r"is not a GGUF|bad GGUF|(?:file|gguf|download).{0,40}truncated|truncated.{0,20}(?:file|download)|(?:sha256|checksum).*(?:mismatch|differ)|unsupported (?:GGUF )?version|GGUF file is version|"
    r"tensor .*offset.*(?:expected|beyond|exceed)|invalid number of (?:dimensions|tensors)|big.?endian|byte.?swapped"
)


def _parts(evidence: Evidence) -> tuple[list[str], list[str]]:
    """Parts of the split model that are missing, and those whose size is zero."""
    listing = _listing(evidence)
    names = [_given(evidence), *listing]
    for line in evidence.said(r"split|shard|part"):
        names += re.findall(r"[\w.+-]+-\d{5}-of-\d{5}\.gguf", line)
    first = next((m for name in names if (m := _SPLIT.match(name))), None)
    empty = [name for name, size in listing.items() if size == 0]
    said = [
        m
        for line in evidence.said(r"failed to load GGUF split|(?:no such|missing).*\.gguf")
        for m in re.findall(r"[\w.+-]+-\d{5}-of-\d{5}\.gguf", line)
    ]
    if first is None or int(first["count"]) > _MAX_PARTS:
        return list(dict.fromkeys(said)), empty
    expected = [f"{first['stem']}-{n:05}-of-{first['count']}.gguf" for n in range(1, int(first["count"]) + 1)]
    missing = [name for name in expected if name not in listing] if listing else []
    return list(dict.fromkeys([*missing, *[name for name in said if name not in listing]])), empty


def _header_faults(evidence: Evidence) -> list[str]:
    header, faults = _header(evidence), []
    magic = header.get("magic")
    if isinstance(magic, str) and magic.upper() not in ("GGUF", "47475546", "0X46554747", "0X47475546"):
        kind = (
            "a Git LFS pointer"
            if "version" in magic or "git-lfs" in magic
            else "a web page"
            if "<" in magic
            else "no GGUF file"
        )
        faults.append(f"the file begins with {one_line(magic, 40)!r}: {kind}")
    version = header.get("version")
    if isinstance(version, int) and version not in (1, 2, 3):
        faults.append(
            f"version {version}"
            + (
                ": the file is big-endian"
                if version in (0x01000000, 0x02000000, 0x03000000)
                else " does not exist"
            )
        )
    model = evidence.model or {}
    size = next(
        (
            m[k]
            for m in (model, header)
            for k in ("file_size", "size", "actual_size", "bytes")
            if isinstance(m.get(k), int)
        ),
        None,
    )
    needed = next(
        (
            m[k]
            for m in (model, header)
            for k in ("expected_size", "needed_size", "expected_bytes", "data_end")
            if isinstance(m.get(k), int)
        ),
        None,
    )
    listed = _listing(evidence).get(_given(evidence))
    size = listed if size is None else size
    if size is not None and needed is not None and size != needed:
        faults.append(f"the file has {size} bytes and should have {needed}")
    tensors = _tensors(evidence)
    count = header.get("tensor_count")
    keys = _keys(evidence) or {}
    if (
        isinstance(count, int)
        and tensors
        and "split.count" not in keys
        and _lists_all(evidence)
        and len(tensors) < count
    ):
        faults.append(f"{len(tensors)} tensors listed, the header says {count}")
    if isinstance(count, int) and (count < 0 or count > 1_000_000):
        faults.append(f"{count} tensors are not possible")
    start = next(
        (v for k in ("data_offset", "data_start") if isinstance(v := header.get(k, model.get(k)), int)), 0
    )
    for tensor in tensors:
        offset, length = (
            tensor.get("offset"),
            next((tensor[k] for k in ("nbytes", "size", "bytes") if isinstance(tensor.get(k), int)), None),
        )
        if (
            size is not None
            and isinstance(offset, int)
            and length is not None
            and start + offset + length > size
        ):
            faults.append(
                f"tensor {one_line(str(tensor.get('name')), 40)} ends at {start + offset + length}, the file at {size}"
            )
            break
    want, have = (
        next((m[k] for m in (model, header) for k in keys_ if isinstance(m.get(k), str)), "")
        for keys_ in (("expected_sha256", "sha256_expected"), ("sha256", "actual_sha256", "sha256_actual"))
    )
    if want and have and want.lower() != have.lower():
        faults.append("the sha256 is not the published one")
    return faults


def _lists_all(evidence: Evidence) -> bool:
    return bool((evidence.model or {}).get("tensors_complete"))


def corrupt(evidence: Evidence) -> Iterator[Verdict]:
    missing, empty = _parts(evidence)
    faults = _header_faults(evidence)
    said = evidence.said(_CORRUPT_SAYS) if evidence.model or evidence.said(r"gguf|llama|model") else []
    if evidence.said(_TYPE_SAYS):
        # The loader goes on complaining about everything it could not read after an unknown type.
        said = []
    if not (missing or empty or faults or said):
        return
    name = _given(evidence)
    yield make(
        "gguf-corrupt",
        f"{name or 'the model file'}: "
        + (
            f"{len(missing)} of its parts missing"
            if missing
            else faults[0]
            if faults
            else "empty file"
            if empty
            else "incomplete or damaged"
        ),
        evidence=[
            *said[:3],
            *faults,
            *[f"missing: {part}" for part in missing[:6]],
            *[f"empty: {part}" for part in empty[:3]],
        ],
        advice=(
            f"download {', '.join(missing[:6])} into the same folder, under exactly this name; the loader opens the first part and finds "
            "the others by name"
            if missing
            else "",
            f"download again: {', '.join(empty[:4])} is empty" if empty else "",
            ""
            if missing
            else "download the file again with resume and compare size and sha256 with the publisher's: `ork model pull`",
            "a Git LFS pointer or a web page was saved instead of the model: fetch the real file"
            if any("pointer" in f or "web page" in f for f in faults)
            else "",
            "check with `ork model show` before it is loaded",
        ),
        refuse=("concatenate the parts with cat", "load what is there", "report the model as loaded"),
        facts={"missing_parts": missing, "empty_files": empty, "faults": faults, "file": name or None},
    )


def _tensors(evidence: Evidence) -> list[dict[str, Any]]:
    for source in (evidence.model or {}, _header(evidence)):
        for key in ("tensors", "tensor_infos"):
            found = source.get(key)
            if isinstance(found, list):
                return [item for item in found if isinstance(item, dict)]
    return []


def _types(evidence: Evidence) -> list[str]:
    found = [str(t[k]) for t in _tensors(evidence) for k in ("type", "ggml_type", "dtype") if k in t]
    for source in (evidence.model or {}, _header(evidence)):
        for key in ("tensor_types", "types"):
            value = source.get(key)
            if isinstance(value, dict):
                found += [str(name) for name in value]
            elif isinstance(value, list):
                found += [
                    str(item.get("type", "")) if isinstance(item, dict) else str(item) for item in value
                ]
    return [name for name in dict.fromkeys(found) if name]


_TYPE_SAYS = (
    r"(?:invalid|unknown|unsupported|unhandled) (?:\w+ ){0,3}type\b|has (?:invalid|unsupported) ggml type|"
    r"(?:type|quantization) .{0,40}(?:not supported|unsupported|removed|no longer)|removed.*(?:repack|Q4_0_\d)|failed to read tensor info.*type"
)


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
        for line in evidence.said(_TYPE_SAYS)
        if not re.search(r"(?i)tokenizer|file ?(?:system )?type|module|mount|media|mime", line)
    ]
    if not unknown and not said:
        return
    named = [*unknown, *[m for line in said for m in re.findall(r"(?i)type[ :=_']+(\w+)", line)][:3]]
    tensor = next((m[1] for line in said if (m := re.search(r"tensor '([^']{1,80})'", line))), "")
    tensor = tensor or next(
        (
            str(t.get("name"))
            for t in _tensors(evidence)
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
            "take another quantization of the same model: Q4_K_M, Q8_0 or F16 files are read everywhere",
            "or quantize it again from the F16 or BF16 file with a current llama.cpp; types that were removed (Q4_0_4_4 and the like) "
            "come back as Q4_0",
            "the file is not damaged: downloading it again changes nothing",
        ),
        refuse=("guess another type for the tensor", "report the model as loaded", "call the file corrupt"),
        facts={"types": list(dict.fromkeys(named)), "tensor": tensor or None},
    )


_TOKENIZER_SAYS = r"(?:unknown|unrecognized) pre-?tokenizer|unknown tokenizer|unsupported tokenizer|tokenizer.*(?:not (?:supported|found|known)|missing|unknown)|error loading model vocabulary|cannot find tokenizer"


def tokenizer(evidence: Evidence) -> Iterator[Verdict]:
    keys = _keys(evidence)
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
    keys = _keys(evidence)
    said = evidence.said(_TEMPLATE_SAYS)
    whole = keys is not None and any(key.startswith("tokenizer.") for key in keys)
    lacking = keys is not None and whole and not str(keys.get("tokenizer.chat_template") or "").strip()
    if keys is not None and str(keys.get("tokenizer.chat_template") or "").strip():
        return
    if not (said or lacking):
        return
    name = str(keys.get("general.name") or keys.get("general.basename") or "") if keys else ""
    base = bool(re.search(r"(?i)\bbase\b", f"{name} {_given(evidence)}"))
    yield make(
        "chat-template-missing",
        "the model file carries no chat template" + (": a base model" if base else ""),
        evidence=[*said[:3], f"{_given(evidence)}: no tokenizer.chat_template" if lacking else ""],
        advice=(
            "take a file that carries its template, or write the publisher's own one (chat_template of tokenizer_config.json) into a "
            "copy of this file",
            "a base model has none by design: use completion (`ork run complete`) instead of chat",
            "a template of another model answers, but badly: do not judge the model by it",
        ),
        refuse=("pick a template of another model silently (such as chatml)",),
        facts={"file": _given(evidence) or None, "base_model": base or None},
    )
