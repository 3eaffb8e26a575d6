"""The one HTML shell: every page that this package writes or serves extends document.html.j2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent


def render(template: Path, **values: Any) -> str:
    """A page from a template; text is escaped, and HTML must be given as `markupsafe.Markup`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader([template.parent, FOLDER])
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template(template.name).render(values)
