"""How text is cut into words before merging, by the name a GGUF gives in ``tokenizer.ggml.pre``.

An unknown name is refused: a guess gives readable text and wrong tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["PRETOKENIZERS", "Pretokenizer"]


@dataclass(frozen=True, slots=True)
class Pretokenizer:
    """Patterns applied one after the other to the pieces; each match and each gap is a piece.

    ``ignore_merges``: a whole word found in the vocabulary is taken as it is.
    ``add_bos``: what holds where the file does not say.
    """

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False


_GPT2_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_PUNCTUATION_AND_SPACE = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

_GPT2 = Pretokenizer((_GPT2_WORDS,))
_SMOLLM = Pretokenizer((r"\p{N}", _GPT2_WORDS))
_QWEN2 = Pretokenizer((_CONTRACTIONS + r"\p{N}" + _PUNCTUATION_AND_SPACE,))
_DBRX = Pretokenizer((_CONTRACTIONS + r"\p{N}{1,3}" + _PUNCTUATION_AND_SPACE,))
_LLAMA3 = replace(_DBRX, ignore_merges=True, add_bos=True)

# The names converters write, each with the rule llama.cpp (src/llama-vocab.cpp) has for it.
PRETOKENIZERS: dict[str, Pretokenizer] = {
    "gpt-2": _GPT2,
    "phi-2": _GPT2,
    "gigachat": _GPT2,
    "a.x-4.0": _GPT2,
    "mellum": _GPT2,
    "smollm": _SMOLLM,
    "starcoder": _SMOLLM,
    "refact": _SMOLLM,
    "command-r": _SMOLLM,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "kormo": _QWEN2,
    "stablelm2": _QWEN2,
    "dbrx": _DBRX,
    "smaug-bpe": _DBRX,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "pixtral": _LLAMA3,
    "lfm2": _LLAMA3,
    "falcon3": _LLAMA3,
    "falcon-h1": _LLAMA3,
    "midm-2.0": _LLAMA3,
}
