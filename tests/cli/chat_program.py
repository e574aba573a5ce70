"""``ork`` with a scripted engine in the place of a model: run as a program by the tests of the chat.

``ORK_TEST_SCRIPT`` is what the engine says; ``ORK_TEST_STEP_S`` how long a token takes; after
``ORK_TEST_DIE_AT`` tokens the device is gone, once; ``ORK_TEST_CLOSED_FOR`` openings after the first fail.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from orkbench_tui.cli import main, model_session
from orkbench_tui.cli.model_session import ModelSession, NpuUse
from orkbench_tui.errors import NoDeviceError
from orkbench_tui.runner.chat_template import ChatTemplate
from orkbench_tui.settings import Settings
from tests.runner.byte_vocabulary import tokenizer
from tests.runner.scripted_engine import ScriptedEngine

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_steps = itertools.count(1)
_openings = itertools.count()


def _before_decode() -> None:
    time.sleep(float(os.environ.get("ORK_TEST_STEP_S", "0")))
    if next(_steps) == int(os.environ.get("ORK_TEST_DIE_AT", "-1")):
        raise NoDeviceError("the simulated NPU is gone", why="connection closed", do="run the command again")


@contextmanager
def scripted_session(settings: Settings) -> Iterator[ModelSession]:
    """What ``model_session.open_session`` gives, without files or devices."""
    if 1 <= next(_openings) <= int(os.environ.get("ORK_TEST_CLOSED_FOR", "0")):
        raise NoDeviceError("no NPU here")
    words = tokenizer()
    script = [*words.encode(os.environ.get("ORK_TEST_SCRIPT", "wor ld")), words.eos_id or 0]
    engine = ScriptedEngine(words.vocab_size, script, context=settings.context, before_decode=_before_decode)
    template = None if settings.model == "base" else ChatTemplate(TEMPLATE)
    try:
        yield ModelSession(
            model=settings.model,
            source="sim",
            quant=settings.quant,
            load_s=0.25,
            engine=engine,
            tokenizer=words,
            template=template,
            metadata={},
            npu_use=lambda: NpuUse(*(count * len(engine.prefills) for count in (3, 9, 1_500_000))),
            model_sha256=lambda: "",
        )
    finally:
        if "ORK_TEST_CLOSED" in os.environ:
            with open(os.environ["ORK_TEST_CLOSED"], "a") as mark:  # noqa: PTH123 - an append mark
                mark.write("closed\n")


if __name__ == "__main__":
    model_session.open_session = scripted_session
    main.main()
