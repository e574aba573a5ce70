"""What a captured model header and the loader's messages say, for the rules about models."""

from __future__ import annotations

import re
from typing import Any

from orkbench_tui.ops.diagnosis.evidence import Evidence

__all__ = ["TYPE_SAYS", "given_name", "metadata", "model_header", "tensors"]

TYPE_SAYS = (
    r"(?:invalid|unknown|unsupported|unhandled) (?:\w+ ){0,3}type\b|has (?:invalid|unsupported) ggml type|"
    r"(?:type|quantization) .{0,40}(?:not supported|unsupported|removed|no longer)|removed.*(?:repack|Q4_0_\d)|failed to read tensor info.*type"
)


def model_header(evidence: Evidence) -> dict[str, Any]:
    """The header of the captured model document, or the document itself where it is flat."""
    model = evidence.model or {}
    header = model.get("header")
    return header if isinstance(header, dict) else model


def metadata(evidence: Evidence) -> dict[str, Any] | None:
    """Metadata keys, None where the capture has none."""
    for name in ("kv", "metadata", "key_values"):
        found = model_header(evidence).get(name)
        if isinstance(found, dict):
            return found
    return None


def given_name(evidence: Evidence) -> str:
    """File name of the model, "" when nothing names one."""
    model = evidence.model or {}
    for key in ("given", "path", "file", "name"):
        if isinstance(model.get(key), str):
            return str(model[key]).rsplit("/", 1)[-1]
    return next((m[0] for line in evidence.output if (m := re.search(r"[\w.+-]+\.gguf", line[:4096]))), "")


def tensors(evidence: Evidence) -> list[dict[str, Any]]:
    for source in (evidence.model or {}, model_header(evidence)):
        for key in ("tensors", "tensor_infos"):
            found = source.get(key)
            if isinstance(found, list):
                return [item for item in found if isinstance(item, dict)]
    return []
