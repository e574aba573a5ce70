"""Models and packs: the list keeps itself fresh; files are verified and models chosen for the chat from here."""

from __future__ import annotations

from collections.abc import Callable

from orkbench_tui.runner.orkpack.placement import Placement
from orkbench_tui.runner.stored_files import Listed, list_files, verify_file
from orkbench_tui.screens.listing import moved
from orkbench_tui.screens.page import Page, bindings_for
from orkbench_tui.screens.services import Services
from orkbench_tui.screens.text_line import Line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.models import models_lines
from orkbench_tui.screens.views.residency import residency_lines
from orkbench_tui.screens.work.background import Post, ended, failure_line, start
from orkbench_tui.screens.work.file_watch import FolderWatch

__all__ = ["ModelsScreen"]


class ModelsScreen(Page):
    """``chat_with`` takes a model's name or path to the chat."""

    where = "models"
    BINDINGS = bindings_for("models")

    def __init__(self, services: Services, post: Post, chat_with: Callable[[str], None]) -> None:
        super().__init__()
        self._services, self._post, self._chat_with = services, post, chat_with
        self._rows: tuple[Listed, ...] = ()
        self._chosen = 0
        self._note = ""
        self._working = False
        self._placed: tuple[str, Placement] | None = None
        self._first = 0
        self._watch = FolderWatch((services.models_dir, services.packs_dir), self._read)

    def on_mount(self) -> None:
        start("models watch", self._begin)

    def on_unmount(self) -> None:
        self._watch.stop()

    def on_screen_resume(self) -> None:
        start("models list", self._read)

    def lines(self, state: ViewState, width: int, height: int) -> list[Line]:
        if self._placed is not None:
            return residency_lines(*self._placed, self._first, state, width, height)
        return models_lines(self._rows, self._note, self._chosen, state, width, height)

    # on threads

    def _begin(self) -> None:
        if why := self._watch.start():
            self._post(lambda: self._say(why))

    def _read(self) -> None:
        try:
            rows = list_files(self._services.models_dir, self._services.packs_dir)
        except Exception as error:  # noqa: BLE001 - the list must say what is wrong with its folders
            text = failure_line(error)
            self._post(lambda: self._say(text))
        else:
            self._post(lambda: self._listed(rows))

    def _verify(self, row: Listed) -> None:
        def progress(phase: str, done: int, total: int) -> None:
            share = f"{100 * done // total} %" if total else ""
            self._post(lambda: self._say(f"reading {row.name}: {share}"))

        try:
            text = verify_file(row, self._services.packs_dir, progress)
        except Exception as error:  # noqa: BLE001 - whatever it was is what the user asked to know
            text = failure_line(error)
        rows = list_files(self._services.models_dir, self._services.packs_dir)
        self._post(lambda: self._verified(f"{row.name}: {text}", rows))

    # on the screen's thread

    def _listed(self, rows: tuple[Listed, ...]) -> None:
        before = self._rows[self._chosen].path if self._rows else None
        self._rows = rows
        places = [index for index, row in enumerate(rows) if row.path == before]
        self._chosen = places[0] if places else moved(self._chosen, 0, len(rows))
        self.redraw()

    def _verified(self, text: str, rows: tuple[Listed, ...]) -> None:
        self._working = False
        self._note = text
        self._listed(rows)

    def _say(self, text: str) -> None:
        self._note = text
        self.redraw()

    def action_other(self) -> None:
        """Where the chosen file's weights live, and back to the files."""
        if self._placed is not None:
            self._placed = None
            self.redraw()
        elif self._rows and not self._working:
            row = self._rows[self._chosen]
            if row.bytes is None:
                self._say(f"{row.name} is not here; `ork model pull {row.name}` gets it")
            else:
                self._say(f"planning {row.name}")
                start("models list", lambda: self._place(row))

    def _place(self, row: Listed) -> None:
        from orkbench_tui.runner.quantize.file_placement import placement_of_file

        found = ended(lambda: placement_of_file(row.path), str)
        self._post(lambda: self._say(found) if isinstance(found, str) else self._planned(row.name, found))

    def _planned(self, name: str, found: Placement) -> None:
        self._placed, self._first, self._note = (name, found), 0, ""
        self.redraw()

    def action_move(self, step: int) -> None:
        if self._placed is not None:
            self._first = moved(self._first, step, len(self._placed[1].domains))
            self.redraw()
            return
        if not self._working:
            self._note = ""
        self._chosen = moved(self._chosen, step, len(self._rows))
        self.redraw()

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.room - 8))

    def action_move_end(self, direction: int) -> None:
        self.action_move(direction * 10_000)

    def action_verify(self) -> None:
        if not self._rows or self._working or self._placed is not None:
            return
        row = self._rows[self._chosen]
        if row.bytes is None:
            self._say(f"{row.name} is not here; `ork model pull {row.name}` gets it")
            return
        self._working = True
        self._say(f"reading {row.name}")
        start("verify", lambda: self._verify(row))

    def action_chat_with(self) -> None:
        if self._rows and self._placed is None:
            row = self._rows[self._chosen]
            # A catalogue model goes by its name, so that it is pulled and checked where that is needed.
            by_name = row.kind == "model" and not row.name.endswith(".gguf")
            self._chat_with(row.name if by_name else str(row.path))
