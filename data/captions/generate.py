"""Write the captions: `python data/captions/generate.py`; with --check, compare what is there instead.

Ten thousand pairs to train on, a thousand to validate, a thousand to test: consecutive draws of one seed, none twice.
"""

import argparse
import hashlib
import os
import sys
from itertools import islice
from pathlib import Path

from sentences import captions

FOLDER = Path(__file__).resolve().parent
SEED = 2020  # the year of the paper
SPLITS = {"train": 10_000, "val": 1_000, "test": 1_000}
LONGEST = 24  # words of either language; about one draw in five thousand is longer


def corpus_files(seed: int = SEED, splits: dict[str, int] = SPLITS) -> dict[str, bytes]:
    """name → content of every file, SHA256SUMS last."""
    pairs = (pair for pair in captions(seed) if all(len(text.split()) <= LONGEST for text in pair))
    files = {}
    for split, count in splits.items():
        chosen = list(islice(pairs, count))
        for language, column in (("de", 0), ("en", 1)):
            files[f"{split}.{language}"] = "".join(f"{pair[column]}\n" for pair in chosen).encode()
    sums = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items())
    return files | {"SHA256SUMS": "".join(sums).encode()}


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Each file is replaced at once, so that no reader meets half of one."""
    for name, content in files.items():
        part = folder / f"{name}.part"
        part.write_bytes(content)
        os.replace(part, folder / name)


def differences(folder: Path, files: dict[str, bytes]) -> list[str]:
    """One line for each file that is missing or differs."""
    found = {name: (folder / name).read_bytes() for name in files if (folder / name).is_file()}
    missing = [f"{name} is missing" for name in files if name not in found]
    return missing + [f"{name} differs" for name in found if found[name] != files[name]]


def main(arguments: list[str] | None = None) -> int:
    """1 if a check found a difference."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the files that are there, write nothing")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the files are (default: beside this script)")
    args = parser.parse_args(arguments)
    files = corpus_files()
    if not args.check:
        write(args.folder, files)
        print(f"wrote {', '.join(files)}")
        return 0
    problems = differences(args.folder, files)
    for problem in problems:
        print(f"{problem}; to write it again: python data/captions/generate.py", file=sys.stderr)
    if not problems:
        print("every file is what the grammar gives")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
