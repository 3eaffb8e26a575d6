"""The command line: `python -m lntutor COMMAND`.

A command raises; `main` prints the error as one sentence, with its notes, and returns the exit code:

| code | meaning |
|---|---|
| 0 | done |
| 1 | it was begun and failed |
| 2 | it was not begun: what was asked for is wrong |
| 130 | interrupted |
| 141 | whoever read the output has gone (`doctor | head`) |

An error that is none of these is a bug and keeps its traceback.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

# name → (what it does, module with `add_arguments(parser)` and `run(args)`, which returns an exit code or None for 0)
COMMANDS = {
    "doctor": ("check this installation: one line per finding, with the fix", "lntutor.publish.doctor"),
    "lab": ("open the course in JupyterLab", "lntutor.publish.lab"),
    "app": ("show every explorer and notebook as a page without code", "lntutor.publish.app"),
    "data": ("list the corpora and where they are, or get one", "lntutor.text.download"),
    "sweep": ("measure or train a grid of settings and write one table", "lntutor.experiments.sweep"),
    "results": ("recompute the stored tables in data/results", "lntutor.experiments.stored"),
    "playground": ("write the playground as one HTML file", "lntutor.publish.playground"),
    "site": ("make static pages of the course that open from disk", "lntutor.publish.site"),
    "claims": ("run the lessons and update the claims ledger", "lntutor.lesson.ledger"),
}


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line, without the options of the commands."""
    listing = "\n".join(f"  {name:<10} {summary}" for name, (summary, _) in COMMANDS.items())
    return argparse.ArgumentParser(
        prog="python -m lntutor",
        usage="%(prog)s COMMAND [options]",
        description="Why does it matter where layer normalization goes?",
        epilog=f"commands:\n{listing}\n\n`python -m lntutor COMMAND --help` lists the options of a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def exit_code(error: Exception) -> int | None:
    """The exit code that an error stands for, `error.exit_code` where it has one; None for a bug."""
    if code := getattr(error, "exit_code", None):
        return code
    if isinstance(error, ValueError) or type(error) is LookupError:  # a KeyError or IndexError is a bug
        return 2
    return 1 if isinstance(error, OSError | ImportError) else None


def message(error: Exception) -> str:
    """What went wrong, and what to do where a package is missing."""
    if isinstance(error, ImportError):
        return f"{error} (in {sys.prefix}). Run `make lab`, or: python -m pip install -r requirements.txt"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error)


def run(name: str, arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        summary, module = COMMANDS[name]
        command = import_module(module)
        parser = argparse.ArgumentParser(prog=f"python -m lntutor {name}", description=summary)
        command.add_arguments(parser)
        code = command.run(parser.parse_args(arguments)) or 0
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as stop:
        notes = " ".join(getattr(stop, "__notes__", ()))
        print(notes if notes.startswith("Stopped.") else f"Stopped. {notes}".rstrip(), file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more at exit
        return 141
    except Exception as error:
        code = exit_code(error)
        if code is None:
            raise
        print(message(error), *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return code


def main(argv: Sequence[str] | None = None) -> int:
    """Find the command that was typed, run it and return its exit code."""
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
    return run(name, rest)


if __name__ == "__main__":
    sys.exit(main())
