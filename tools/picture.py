"""Take the pictures of the README and of the gallery from the real thing, in a real browser.

`.venv/bin/python tools/picture.py` (needs the tools of requirements-dev.txt and a browser) writes all of
notebooks/pictures; names after it, as `animation` or `TheoremExplorer`, choose some. A notebook has none: it
would give an answer away.
"""

import argparse
import base64
import os
import struct
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Browser, Page  # noqa: E402

from lntutor.page.playground.page import page as playground  # noqa: E402
from lntutor.publish.browser import find_browser  # noqa: E402
from lntutor.publish.gallery import EXPLORERS, PICTURES  # noqa: E402
from lntutor.text.files import put  # noqa: E402
from tests.browser.jupyter import (  # noqa: E402
    SECONDS,
    Server,
    chromium,
    new_notebook,
    voila,
    write_notebook,
)

ANIMATION = PICTURES / "playground.webp"
WIDTH = 960  # of a thumbnail; the gallery shows half of that
WINDOW, SEEN = 1280, 800  # of the page that a thumbnail shows whole: type for the back row wants that much room
QUALITY = 0.82
RUNS = {"TrainingExplorer", "CurvatureExplorer"}  # empty until Run has been pressed
STATES = {  # that answer no question of a lesson
    "TheoremExplorer": "along='width', depth=6",
    "LayerNormExplorer": "dimension=4",
    "TrainingExplorer": "placements=['pre']",
    "CurvatureExplorer": "placements=['pre']",
}
PLOT, PLAYGROUND = ".lntutor-live", "[data-lntutor=playground]"
TO_WEBP = """async ([png, quality, width]) => {
    const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob())
    const height = Math.round(bitmap.height * width / bitmap.width)
    const canvas = Object.assign(document.createElement('canvas'), { width, height })
    const context = Object.assign(canvas.getContext('2d', { alpha: false }), { imageSmoothingQuality: 'high' })
    context.drawImage(bitmap, 0, 0, width, height)
    return canvas.toDataURL('image/webp', quality).split(',')[1]
}"""


def main() -> None:
    """Take the pictures that are asked for, all by default."""
    known = ["animation", "Playground", *(tile.key for tile in EXPLORERS)]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=", ".join(known))
    asked = parser.parse_args().names or known
    if unknown := set(asked) - set(known):
        parser.error(f"no picture {', '.join(sorted(unknown))}: there are {', '.join(known)}")
    PICTURES.mkdir(exist_ok=True)
    with chromium(find_browser()) as browser:
        if "animation" in asked:
            take_animation(browser)
        if others := [name for name in asked if name != "animation"]:
            os.environ["LNTUTOR_LECTURE"] = "1"
            take_others(browser, others)


def take_others(browser: Browser, names: list[str]) -> None:
    """Thumbnails, from Voilà."""
    with tempfile.TemporaryDirectory() as folder:
        home, scratch = Path(folder, "home"), Path(folder, "scratch")
        home.mkdir()
        scratch.mkdir()
        with voila(home, scratch, "--VoilaConfiguration.show_tracebacks=True") as server:
            for name in names:
                write_notebook(
                    scratch / f"{name}.ipynb", f"from lntutor.explore import {name}", f"{name}({STATES.get(name, '')})"
                )
                with opened(browser, server, name) as page:
                    save(PICTURES / f"{name}.webp", thumbnail(page, name))


@contextmanager
def opened(browser: Browser, server: Server, name: str) -> Iterator[Page]:
    """The page of this notebook, its last plot drawn."""
    with new_notebook(browser) as notebook:
        page = notebook.page
        page.set_viewport_size({"width": WINDOW, "height": 900})
        page.goto(f"{server.url}voila/render/{name}.ipynb", timeout=600 * SECONDS)
        if errors := notebook.errors():
            raise RuntimeError(f"{name}: {errors[0]}")
        drawn = f"{PLAYGROUND} .lnp-picture" if name == "Playground" else f"{PLOT} .main-svg"
        page.locator(drawn).first.wait_for(timeout=60 * SECONDS)
        page.wait_for_timeout(4 * SECONDS)  # all seeds are drawn
        yield page


def thumbnail(page: Page, name: str) -> bytes:
    """The last plot of the page and what stands above it, as far as there is room."""
    if name in RUNS:
        page.get_by_role("button", name="Run", exact=True).click()
        page.locator(".lntutor-status", has_text="done in").wait_for(state="attached", timeout=300 * SECONDS)
        page.wait_for_timeout(2 * SECONDS)
    page.mouse.move(0, 0)
    plot = page.locator(PLAYGROUND if name == "Playground" else PLOT).last
    high = plot.bounding_box()["height"] > SEEN
    plot.evaluate(f"element => element.scrollIntoView({{ block: '{'start' if high else 'end'}' }})")
    box = plot.bounding_box()
    top = box["y"] if high else box["y"] + box["height"] - SEEN
    return webp(page, {"x": 0, "y": max(top, 0), "width": WINDOW, "height": SEEN})


def webp(page: Page, clip: dict) -> bytes:
    """What stands there in the window, as a picture of our width that the page's own canvas packs."""
    png = base64.b64encode(page.screenshot(clip=clip, timeout=120 * SECONDS)).decode()
    return base64.b64decode(page.evaluate(TO_WEBP, [png, QUALITY, WIDTH]))


def take_animation(browser: Browser) -> None:
    """The playground from its file: more layers, then the norm is dragged to another slot, and a second is added."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "playground.html")
        put(path, playground().encode())
        with new_notebook(browser) as notebook:
            notebook.page.set_viewport_size({"width": WINDOW, "height": 700})
            notebook.page.goto(path.as_uri())
            notebook.page.wait_for_timeout(3 * SECONDS)
            save(ANIMATION, animate(notebook.page))


def animate(page: Page) -> bytes:
    """Frames of what a hand does, each with its milliseconds."""
    box = page.locator(PLAYGROUND).bounding_box()
    clip = {"x": 0, "y": 0, "width": WINDOW, "height": int(box["y"] + box["height"]) // 4 * 4}
    frames = []

    def frame(milliseconds: int, wait: int = 150) -> None:
        page.wait_for_timeout(wait)
        frames.append((webp(page, clip), milliseconds))

    def place(name: str) -> tuple[float, float]:
        spot = page.get_by_role("switch", name=name, exact=True).bounding_box()
        return spot["x"] + spot["width"] / 2, spot["y"] + spot["height"] / 2

    def drag(start: tuple[float, float], end: tuple[float, float], steps: int = 7) -> None:
        page.mouse.move(*start)
        page.mouse.down()
        for step in range(1, steps + 1):
            page.mouse.move(*(a + (b - a) * step / steps for a, b in zip(start, end, strict=True)))
            frame(90)
        page.mouse.up()
        page.mouse.move(1, 1)
        frame(1_800, wait=1_500)

    frame(1_200)
    page.get_by_role("slider", name="Depth").focus()
    for depth in range(7, 13):
        page.keyboard.press("ArrowRight")
        frame(1_200 if depth == 12 else 130, wait=1_500 if depth == 12 else 150)
    drag(place("Norm after the sum"), place("Norm before the sub-layer"))
    spare = page.locator(".lnp-spare").bounding_box()
    drag((spare["x"] + spare["width"] / 2, spare["y"] + spare["height"] / 2), place("Norm at the very end"))
    page.get_by_role("slider", name="Depth").focus()
    for depth in (10, 8, 6):
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        frame(1_800 if depth == 6 else 130, wait=1_500 if depth == 6 else 150)
    return animated_webp(frames, WIDTH, clip["height"] * WIDTH // WINDOW)


def save(path: Path, picture: bytes) -> None:
    """Write a picture and say how large it is."""
    put(path, picture)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} KB", flush=True)


def image_chunks(picture: bytes) -> Iterator[bytes]:
    """Of a WebP, the parts that are the image itself: not the header, nor the profile of colours."""
    start = 12  # after RIFF, the size and WEBP
    while start < len(picture):
        length = struct.unpack("<I", picture[start + 4 : start + 8])[0]
        end = start + 8 + length + length % 2
        if picture[start : start + 4] in (b"VP8 ", b"VP8L", b"ALPH"):
            yield picture[start:end]
        start = end


def animated_webp(frames: list[tuple[bytes, int]], width: int, height: int) -> bytes:
    """One WebP of many, each shown for its milliseconds, again and again (developers.google.com/speed/webp, RIFF)."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)

    def three(number: int) -> bytes:
        return struct.pack("<I", number)[:3]

    size = three(width - 1) + three(height - 1)
    parts = [chunk(b"VP8X", b"\x02\0\0\0" + size), chunk(b"ANIM", b"\xff\xff\xff\xff\0\0")]
    for picture, milliseconds in frames:
        head = three(0) + three(0) + size + three(milliseconds) + b"\x02"  # drawn over the last one, not blended
        parts.append(chunk(b"ANMF", head + b"".join(image_chunks(picture))))
    body = b"WEBP" + b"".join(parts)
    return b"RIFF" + struct.pack("<I", len(body)) + body


if __name__ == "__main__":
    main()
