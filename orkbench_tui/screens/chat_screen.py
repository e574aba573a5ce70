"""Chat: questions typed below, answers streamed above, with the engine and the conversation of ``ork run chat``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from orkbench_tui.screens.entry_line import Entry
from orkbench_tui.screens.page import Page, bindings_for
from orkbench_tui.screens.services import Services
from orkbench_tui.screens.text_line import Line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.chat import Chat, chat_body, chat_lines
from orkbench_tui.screens.work.background import Post
from orkbench_tui.screens.work.chat_worker import ChatEvents, ChatWorker

__all__ = ["ChatScreen"]

_PROMPT = " > "


class ChatScreen(Page):
    """A model is opened with the first question and kept until it is closed or another is chosen."""

    where = "chat"
    BINDINGS = bindings_for("chat")

    def __init__(self, services: Services, post: Post, to_models: Callable[[], None]) -> None:
        super().__init__()
        self._to_models = to_models
        self._model = services.default_model
        self._chat = Chat(heading=self._model)
        self._waiting = ""
        self._next_model = ""
        self._asked: list[str] = []
        self._back = 0
        self._said = ""
        events = ChatEvents(
            progress=self._on_progress,
            opened=self._on_opened,
            text=self._on_text,
            answered=self._on_answered,
            failed=self._on_failed,
            closed=self._on_closed,
            context=self._on_context,
        )
        self._worker = ChatWorker(services, post, events)

    @property
    def holds_npu(self) -> bool:
        return self._worker.state != "closed"

    @property
    def activity(self) -> str:
        """What runs, for the footer of other pages."""
        return {"answering": "chat answers", "opening": "chat opens a model"}.get(self._worker.state, "")

    def lines(self, state: ViewState, width: int, height: int) -> list[Line]:
        chat = dataclasses.replace(self._chat, state=self._worker.state)
        return chat_lines(chat, state, width, height)

    def said(self) -> str:
        return self._said

    def use_model(self, model: str) -> None:
        """Talk with ``model`` from now on; an open one is let go of first."""
        if model != self._model and self._worker.state != "closed":
            self._next_model = model
            self._worker.close()
        elif model != self._model:
            self._model = model
            self._change(Chat(heading=model))
        self.action_edit()

    # keys

    def action_edit(self) -> None:
        self._said, self._back = "", 0
        self.edit(_PROMPT)

    def action_stop(self) -> None:
        if self._worker.state == "answering":
            self._worker.stop()
            self._said = "stopping after this token"
        self.redraw()

    def action_clear(self) -> None:
        if self._worker.state == "answering":
            self._said = "x stops the answer first"
        else:
            if self._worker.state == "ready":
                self._worker.clear()
            self._chat = dataclasses.replace(self._chat, turns=(), up=0, used=None)
            self._said = "new conversation"
        self.redraw()

    def action_close_model(self) -> None:
        if self._worker.state == "closed":
            self._said = "no model is open"
        else:
            self._worker.close()
            self._said = "letting go of the model and the NPU"
        self.redraw()

    def action_choose_model(self) -> None:
        self._to_models()

    def action_scroll(self, step: int) -> None:
        most = max(0, len(chat_body(self._chat, self.state, self.size.width)) - self.room + 1)
        self._chat = dataclasses.replace(self._chat, up=min(max(0, self._chat.up - step), most))
        self.redraw()

    def action_scroll_page(self, direction: int) -> None:
        self.action_scroll(direction * max(1, self.room - 2))

    def other_key(self, key: str) -> bool:
        """Earlier questions, and reading back while typing."""
        if key in ("up", "down") and self._asked:
            self._back = min(max(0, self._back + (1 if key == "up" else -1)), len(self._asked))
            self.entry = Entry.of(self._asked[-self._back]) if self._back else Entry()
            return True
        if key in ("pageup", "pagedown"):
            self.action_scroll_page(-1 if key == "pageup" else 1)
            return True
        return False

    def abandoned(self) -> None:
        self.action_stop()

    def entered(self, text: str) -> None:
        question = text.strip()
        if not question:
            return
        if self._worker.state in ("answering", "opening", "closing"):
            self.edit(_PROMPT, text)
            self._said = ""
            self._chat = dataclasses.replace(
                self._chat, progress="one question at a time; esc stops the answer"
            )
            return
        self._asked.append(question)
        self._chat = dataclasses.replace(self._chat.said("question", question), progress="")
        if self._worker.state == "closed":
            self._waiting = question
            self._chat = dataclasses.replace(self._chat, progress=f"opening {self._model}")
            self._worker.open(self._model)
        else:
            self._worker.ask(question)
        self.edit(_PROMPT)

    # what the worker tells

    def _change(self, chat: Chat) -> None:
        self._chat = chat
        self.redraw()

    def _on_progress(self, text: str) -> None:
        self._change(dataclasses.replace(self._chat, progress=text))

    def _on_opened(self, heading: str) -> None:
        self._change(dataclasses.replace(self._chat, heading=heading, progress=""))
        if self._waiting:
            question, self._waiting = self._waiting, ""
            self._worker.ask(question)

    def _on_text(self, text: str) -> None:
        self._change(dataclasses.replace(self._chat.streamed(text), progress=""))

    def _on_answered(self, figures: str, note: str) -> None:
        chat = self._chat.said("note", note) if note else self._chat
        self._said = ""
        self._change(dataclasses.replace(chat.said("figures", figures), progress=""))

    def _on_failed(self, text: str) -> None:
        self._change(dataclasses.replace(self._chat.said("error", text), progress=""))

    def _on_closed(self, why: str) -> None:
        chat = self._chat.said("error", why) if why else self._chat
        self._waiting = ""
        if self._next_model:
            self._model, self._next_model = self._next_model, ""
            chat = Chat(heading=self._model)
        self._said = "" if why else "the NPU is free; the next question begins a new conversation"
        self._change(dataclasses.replace(chat, used=None, size=None, progress=""))

    def _on_context(self, used: int, size: int) -> None:
        self._change(dataclasses.replace(self._chat, used=used, size=size))
