"""Notebooks and guides as web pages: prose with its maths, interactive figures, folded code.

A page needs the files of `assets/` beside it and nothing from the network. Temml draws formulas as MathML, plotly.js
draws figures when they come into view.
"""

from __future__ import annotations

import re
from html import escape, unescape
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
from markupsafe import Markup
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from lntutor.page.document import render
from lntutor.publish.gallery import EXPLORERS

ANSI = re.compile(r"\x1b\[[0-9;]*m")
DRAWN = re.compile(r"(</figure>)<script>.*?</script>", re.DOTALL)  # one script draws them all: assets/page.js
EMPTY = re.compile(
    r'<figure class="lntutor-static"(?:(?!</figure>).)*?"data":\[\](?:(?!</figure>).)*</figure>', re.DOTALL
)
EXERCISE = re.compile(r"^check\(", re.MULTILINE)
EXPLORER = re.compile(r"\b(\w+Explorer)\(")
HEADING = re.compile(r'<h2 id="([^"]+)">(.*?)</h2>', re.DOTALL)
ON_PLAYGROUND = ("PlacementExplorer", "TheoremExplorer")  # explorers whose views it has, too
SECTION = re.compile(r"## (.+)")
FOUND = "What we found"  # the section that a handout is without
TWIN = re.compile(r'<p class="lntutor-playground" data-link="([^"]*)">.*?</p>', re.DOTALL)
FRAME = r'<iframe class="playground" src="playground.html#\1" title="The playground"></iframe>'
TEMPLATE = Path(__file__).resolve().parent / "lesson.html.j2"


class Prose(IPythonRenderer):
    """Markdown as JupyterLab reads it; formulas wait for Temml, links lead to the pages of this site."""

    def __init__(self, links: dict[str, str]):
        super().__init__(escape=False, exclude_anchor_links=True)
        self.links = links

    def block_math(self, body: str) -> str:
        return f'<div class="math" data-display>{escape(body.strip(), quote=False)}</div>'

    def multiline_math(self, text: str) -> str:
        return self.block_math(text)

    def inline_math(self, body: str) -> str:
        return f'<span class="math">{escape(body.strip(), quote=False)}</span>'

    def link(self, text: str, url: str, title: str | None = None) -> str:
        path, mark, rest = url.partition("#")
        if not path or urlsplit(url).scheme:
            return super().link(text, url, title)
        known = self.links.get(Path(path).name)
        return super().link(text, known + mark + rest, title) if known else text  # a file that is not part of the site

    def block_code(self, code: str, info: str | None = None) -> str:
        return python(code) if (info or "").startswith("python") else f'<pre tabindex="0">{escape(code)}</pre>'


def markdown(text: str, links: dict[str, str]) -> str:
    """Markdown as HTML."""
    html = MarkdownWithMath(renderer=Prose(links)).render(text)
    return html.replace("<table>", '<div class="output" tabindex="0"><table>').replace("</table>", "</table></div>")


def python(source: str) -> str:
    """Python code with highlighted syntax, as HTML."""
    return highlight(source, PythonLexer(), HtmlFormatter(wrapcode=True)).replace("<pre>", '<pre tabindex="0">', 1)


def notebook_page(notebook: nbformat.NotebookNode, links: dict[str, str], around: list[tuple[str, str]]) -> str:
    """A notebook with its outputs, as a page; `around` holds (text, address) of the links at the top."""
    parts, found = [], False
    for cell in notebook.cells:
        if title := cell.cell_type == "markdown" and SECTION.match(cell.source):
            found = title[1].strip() == FOUND
        html = _cell(cell, links)
        parts.append(f'<div class="found">{html}</div>' if found else html)
    return page("\n".join(parts), around, lesson=True)


def markdown_page(text: str, links: dict[str, str], around: list[tuple[str, str]]) -> str:
    """A guide in Markdown, as a page."""
    return page(markdown(text, links), around)


def page(body: str, around: list[tuple[str, str]], lesson: bool = False) -> str:
    """A page of this site around a body whose first heading is its title; a lesson prints without its answers."""
    body = _named_headings(body)
    title = re.search(r"<h1[^>]*>(.*?)</h1>", body, re.DOTALL)
    name = f"{_text(title[1]) if title else 'lntutor'} · lntutor"
    contents = [(anchor, _text(text)) for anchor, text in HEADING.findall(body)]
    return render(TEMPLATE, title=name, links=around, contents=contents, body=Markup(body), lesson=lesson)


def _cell(cell: nbformat.NotebookNode, links: dict[str, str]) -> str:
    if cell.cell_type == "markdown":
        return f"<section>{markdown(cell.source, links)}</section>"
    if cell.cell_type != "code" or not cell.source.strip():
        return ""
    outputs = "".join(_output(output) for output in cell.outputs)
    names = EXPLORER.findall(cell.source) if "lntutor-static" in outputs else []
    outputs = _after_run(outputs, names[0]) if names else outputs
    note = _explorer_note(names[0]) if names else ""
    kind = "code exercise" if EXERCISE.search(cell.source) else "code"
    return f'<details class="{kind}"><summary>Code</summary>{python(cell.source)}</details>{outputs}{note}'


def _output(output: nbformat.NotebookNode) -> str:
    """An output as HTML: HTML unchanged except for the scripts of single figures, text escaped."""
    data = output.get("data", {})
    if "text/html" in data:
        html = TWIN.sub(FRAME, DRAWN.sub(r"\1", "".join(data["text/html"])))
        return f'<div class="output" tabindex="0">{html}</div>' if "<table" in html else f"<div>{html}</div>"
    text = output.get("text") or data.get("text/plain") or "\n".join(output.get("traceback", []))
    return f'<pre class="output" tabindex="0">{escape(ANSI.sub("", "".join(text)).rstrip())}</pre>' if text else ""


def _after_run(outputs: str, explorer: str) -> str:
    """Replace the empty plot of an explorer that waits for Run by a picture taken after Run."""
    tile = next((tile for tile in EXPLORERS if tile.key == explorer), None)
    if tile is None or not tile.picture or not EMPTY.search(outputs):
        return outputs
    alt = escape(f"{explorer} after Run. {tile.summary}")
    return EMPTY.sub(f'<figure><img src="{tile.picture}" alt="{alt}" width="960" height="600"></figure>', outputs)


def _explorer_note(explorer: str) -> str:
    """The note below the picture of an explorer: it is live in the notebook."""
    here = ' Here, <a href="playground.html">the playground</a> is.' if explorer in ON_PLAYGROUND else ""
    return f'<p class="note">In the notebook this is live: {escape(explorer)} has controls there.{here}</p>'


def _named_headings(body: str) -> str:
    """Give every heading an id, so that it can be linked to."""
    seen: dict[str, int] = {}

    def name(match: re.Match) -> str:
        level, inner = match[1], match[2]
        anchor = re.sub(r"[^\w -]", "", _text(inner).lower()).replace(" ", "-") or "part"  # as GitHub names them
        seen[anchor] = seen.get(anchor, 0) + 1
        again = f"-{seen[anchor]}" if seen[anchor] > 1 else ""
        return f'<h{level} id="{anchor}{again}">{inner}</h{level}>'

    return re.sub(r"<h([1-4])[^>]*>(.*?)</h\1>", name, body, flags=re.DOTALL)


def _text(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", html)).strip()
