"""Model files that are incomplete, damaged or not GGUF."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.model_header import TYPE_SAYS, given_name, metadata, model_header, tensors
from orkbench_tui.ops.diagnosis.verdict import Verdict
from orkbench_tui.ops.diagnosis.wording import make
from orkbench_tui.plain_text import one_line

__all__ = ["corrupt"]

_SPLIT = re.compile(r"^(?P<stem>.+)-(?P<part>\d{5})-of-(?P<count>\d{5})\.gguf$")


_MAX_PARTS = 2000


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
    names = [given_name(evidence), *listing]
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
    header, faults = model_header(evidence), []
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
    listed = _listing(evidence).get(given_name(evidence))
    size = listed if size is None else size
    if size is not None and needed is not None and size != needed:
        faults.append(f"the file has {size} bytes and should have {needed}")
    listed_tensors = tensors(evidence)
    count = header.get("tensor_count")
    keys = metadata(evidence) or {}
    if (
        isinstance(count, int)
        and listed_tensors
        and "split.count" not in keys
        and _lists_all(evidence)
        and len(listed_tensors) < count
    ):
        faults.append(f"{len(listed_tensors)} tensors listed, the header says {count}")
    if isinstance(count, int) and (count < 0 or count > 1_000_000):
        faults.append(f"{count} tensors are not possible")
    start = next(
        (v for k in ("data_offset", "data_start") if isinstance(v := header.get(k, model.get(k)), int)), 0
    )
    for tensor in listed_tensors:
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
    if evidence.said(TYPE_SAYS):
        # The loader goes on complaining about everything it could not read after an unknown type.
        said = []
    if not (missing or empty or faults or said):
        return
    name = given_name(evidence)
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
            else f"download {name or 'the file'} again with resume and compare size and sha256 with the publisher's: `ork model pull`",
            "a Git LFS pointer or a web page was saved instead of the model: fetch the real file"
            if any("pointer" in f or "web page" in f for f in faults)
            else "",
            "check with `ork model show` before it is loaded",
        ),
        refuse=("concatenate the parts with cat", "load what is there", "report the model as loaded"),
        facts={"missing_parts": missing, "empty_files": empty, "faults": faults, "file": name or None},
    )
