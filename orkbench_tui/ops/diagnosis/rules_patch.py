"""Kernel patches that do not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.verdict import Verdict
from orkbench_tui.ops.diagnosis.wording import make

__all__ = ["patch"]

_FAILED_HUNK = re.compile(r"^Hunk #(\d{1,6}) FAILED at (\d{1,9})")


_SUMMARY = re.compile(r"^(\d{1,6}) out of (\d{1,6}) hunks? (?:FAILED|failed|ignored)")


def patch(evidence: Evidence) -> Iterator[Verdict]:
    lines = evidence.patch or tuple(
        line for line in evidence.output if re.search(r"Hunk #|patch failed|hunks? FAILED", line)
    )
    files: list[str] = []
    failed_files: list[str] = []
    at: list[int] = []
    failed = total = 0
    fuzz = already = malformed = missing = False
    bad: list[str] = []
    for raw in lines:
        line = raw.strip()[:4096]
        if m := re.match(r"(?:patching|checking) file '?([^']+?)'?$", line):
            files.append(m[1])
        elif m := _FAILED_HUNK.match(line):
            at.append(int(m[2]))
            bad.append(line)
            failed_files += files[-1:]
        elif m := _SUMMARY.match(line):
            failed, total = failed + int(m[1]), total + int(m[2])
            bad.append(line)
            failed_files += files[-1:]
        elif m := re.match(r"error: patch failed: (\S+?):(\d{1,9})", line):
            failed_files.append(m[1])
            at.append(int(m[2]))
            bad.append(line)
        elif m := re.match(
            r"error: (\S+): (?:patch does not apply|does not exist in index|No such file or directory|already exists in)",
            line,
        ):
            failed_files.append(m[1])
            missing |= "not exist" in line or "No such" in line
            already |= "already exists" in line
            bad.append(line)
        elif re.search(
            r"Reversed \(or previously applied\) patch detected|already applied|Skipping patch", line
        ):
            already = True
            bad.append(line)
        elif re.search(r"malformed patch|corrupt patch|garbage|Only garbage was found", line):
            malformed = True
            bad.append(line)
        elif re.search(
            r"can't find file to patch|No file to patch|Patch failed at|Cannot apply|does not apply|rejects? to file",
            line,
        ):
            missing |= "file to patch" in line
            bad.append(line)
        fuzz |= "with fuzz" in line
    if not bad:
        return
    names = list(dict.fromkeys(failed_files or files))
    failed = failed or len(at)
    where = f" at line {', '.join(map(str, at[:4]))}" if at else ""
    yield make(
        "patch-rejected",
        f"the patch does not fit: {', '.join(name.rsplit('/', 1)[-1] for name in names[:3]) or 'no file named'}{where}",
        evidence=bad,
        advice=(
            f"look at {', '.join(names[:4])}{where} beside the .rej file: is the change already there (merged upstream), or did the "
            "code around it move?"
            if names
            else "the patch names no file of this tree: check the folder and the -p level",
            "already applied: drop the patch from the series"
            if already
            else "if it is already in the tree drop the patch; else take the variant of the patch for this kernel version",
            "hunks that applied with fuzz or offset are not proven right: read them too" if fuzz else "",
            "the file does not exist in this tree: wrong kernel version, path prefix or -p level"
            if missing
            else "",
            "the patch file itself is damaged (mail client, CRLF): get it again" if malformed else "",
            "start from a clean tree before the next try: a half-patched one must not be built",
        ),
        refuse=("continue the build", "install the kernel", "force the patch in"),
        facts={
            "failed_hunks": failed,
            "total_hunks": total or None,
            "fuzz": fuzz,
            "files": names,
            "lines": at,
            "already_applied": already,
        },
    )
