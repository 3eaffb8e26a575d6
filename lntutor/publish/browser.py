"""Find a browser of the Chromium family for the browser tests."""

import os
import shutil
from collections.abc import Mapping

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC_APPS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)


def find_browser(environ: Mapping[str, str] = os.environ) -> str | None:
    """The path of Chromium or Chrome: what LNTUTOR_BROWSER names, else the first one found, else None."""
    path = environ.get("PATH", os.defpath)
    if asked := environ.get("LNTUTOR_BROWSER"):
        if found := shutil.which(asked, path=path):
            return found
        raise ValueError(
            f"LNTUTOR_BROWSER must be the name or path of a Chromium or Chrome program, got {asked!r}, "
            "which is not one: correct it or unset it"
        )
    candidates = (shutil.which(name, path=path) for name in (*NAMES, *MAC_APPS))
    return next(filter(None, candidates), None)
