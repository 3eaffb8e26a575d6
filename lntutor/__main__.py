"""The command line: `python -m lntutor COMMAND`."""

import argparse
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

# name → (what it does, module with `add_arguments(parser)` and `run(args) -> exit code`)
COMMANDS = {
    "doctor": ("check this installation, one line a finding, with the fix", "lntutor.doctor"),
    "lab": ("open the course in JupyterLab", "lntutor.lab"),
    "app": ("show every explorer and notebook as a page without code", "lntutor.app"),
    "data": ("list the corpora and where they are, or get one", "lntutor.download"),
    "sweep": ("measure or train a grid of settings, into one table", "lntutor.sweeps"),
    "results": ("make the stored tables in data/results again", "lntutor.results"),
    "site": ("make static pages of the course that open from disk", "lntutor.site"),
    "claims": ("run the lessons and write the claims ledger again", "lntutor.ledger"),
}


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line, without the options of the commands."""
    listing = "\n".join(f"  {name:<8} {summary}" for name, (summary, _) in COMMANDS.items())
    return argparse.ArgumentParser(
        prog="python -m lntutor",
        usage="%(prog)s COMMAND [options]",
        description="Why does it matter where layer normalization goes?",
        epilog=f"commands:\n{listing}\n\n`python -m lntutor COMMAND --help` tells the options of one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = build_parser()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments:
        parser.print_help()
        return 0
    if arguments[0].startswith("-"):
        parser.parse_args(arguments)  # --help, or an error
    name, *rest = arguments
    if name not in COMMANDS:
        near = get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        parser.error(f"unknown command {name!r}: {hint}there are {', '.join(COMMANDS)}")
    summary, module = COMMANDS[name]
    command = import_module(module)
    options = argparse.ArgumentParser(prog=f"python -m lntutor {name}", description=summary)
    command.add_arguments(options)
    return command.run(options.parse_args(rest))


if __name__ == "__main__":
    sys.exit(main())
