"""Find a browser for the tests, or install Debian's Chromium where that may be done."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lntutor.publish.browser import find_browser

HOW = """No Chromium or Chrome was found, so the browser tests are left out (with CI=true they fail).
Install one (Debian: sudo apt-get install chromium; elsewhere: Chromium or Google Chrome), or name one that
is not on the PATH: LNTUTOR_BROWSER=/path/to/chrome make test"""


def root_prefix() -> list[str] | None:
    """What goes before a command that needs root: nothing, or sudo where it asks nothing; None if neither."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode == 0:
        return ["sudo", "-n"]
    return None


def install_chromium() -> None:
    """Ask apt for Chromium; what it says is on the screen."""
    prefix = root_prefix() if shutil.which("apt-get") else None
    if prefix is None:
        return
    print("No browser found: installing Debian's package chromium", flush=True)
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]
    subprocess.run([*apt, "update"])
    subprocess.run([*apt, "install", "-y", "--no-install-recommends", "chromium"])


def main() -> int:
    """Exit code 0 with or without a browser: the tests say what its absence means."""
    try:
        if find_browser() is None:
            install_chromium()
        if find_browser() is None:
            print(HOW, file=sys.stderr)
    except ValueError as error:  # LNTUTOR_BROWSER names nothing
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
