"""Explorers whose cells are run again: an explorer leaves the kernel when no cell holds it any more."""

from types import SimpleNamespace

import pytest
from ipywidgets.widgets.widget import _instances as WIDGETS

from lntutor.explore import LayerNormExplorer, TrainingExplorer, cell_reruns

pytestmark = pytest.mark.usefixtures("no_pause")


class Shell:
    """A kernel's shell, as far as it is asked: which cell is run, the names of the reader, what follows a cell."""

    def __init__(self):
        self.user_ns, self.after, self.runs = {}, [], 0
        self.events = SimpleNamespace(register=lambda event, function: self.after.append(function))

    def get_parent(self):
        return self.request

    def run(self, cell: str, code):
        """Run a cell that the page names so."""
        self.runs += 1
        self.request = {"header": {"msg_id": str(self.runs)}, "metadata": {"cellId": cell}}
        result = code()
        for function in self.after:
            function(None)
        self.request = {"header": {"msg_id": "a move"}, "metadata": {}}
        return result


@pytest.fixture
def shell(monkeypatch):
    """In place of the kernel's."""
    shell = Shell()
    monkeypatch.setattr(cell_reruns, "_shell", lambda: shell)
    return shell


def test_a_cell_run_again_closes_what_it_made_and_keeps_what_it_makes(shell):
    """Oracle: ipywidgets' own list after one run and after three."""
    shell.run("a", LayerNormExplorer)
    once = len(WIDGETS)
    shell.run("a", LayerNormExplorer)
    last = shell.run("a", lambda: [LayerNormExplorer(), LayerNormExplorer()])
    assert all(explorer.comm is not None for explorer in last)
    shell.run("b", lambda: None)
    assert all(explorer.comm is not None for explorer in last)
    shell.run("a", LayerNormExplorer)
    assert len(WIDGETS) == once


def test_one_that_another_cell_shows_or_that_has_a_name_stays(shell):
    """Oracle: whether its line to the page is open."""
    explorer = shell.run("a", LayerNormExplorer)
    named = shell.run("a2", lambda: shell.user_ns.setdefault("explorer", LayerNormExplorer()))
    shell.run("b", explorer._repr_mimebundle_)
    shell.run("a", lambda: None)
    shell.run("a2", lambda: None)
    assert explorer.comm is not None
    assert named.comm is not None
    shell.run("b", lambda: None)
    shell.user_ns["explorer"] = shell.run("a2", LayerNormExplorer)
    assert explorer.comm is None
    shell.run("c", lambda: None)
    assert named.comm is None


def test_a_training_ends_when_its_cell_is_run_again(shell):
    """Oracle: the thread, and how the training says that it ended."""

    def start():
        explorer = TrainingExplorer(depth=1, width=16, steps=2000)
        explorer.run()
        return explorer

    old = shell.run("a", start)
    new = shell.run("a", lambda: TrainingExplorer(depth=1, width=16, steps=20))
    old.wait(60)
    assert not old.running
    assert "Stopped." in old.status.value
    new.close()


def test_outside_a_notebook_nothing_is_noted(monkeypatch):
    """Oracle: no shell, and a shell that does not say which cell it runs."""
    for shell in (None, SimpleNamespace(), SimpleNamespace(get_parent=lambda: {})):
        monkeypatch.setattr(cell_reruns, "_shell", lambda shell=shell: shell)
        explorer = LayerNormExplorer()
        assert explorer not in cell_reruns._HELD
        explorer.close()
