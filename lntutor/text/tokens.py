"""Sentences to words and back: what a model reads, and what is scored."""

from __future__ import annotations

import re
from collections.abc import Iterable

# A number with its points, a word with the hyphens and apostrophes inside it (and the hyphen of "Bau- und"), or a sign.
LETTERS = r"[\w\u0300-\u036f]+"  # accents may be written apart from their letters
WORD = re.compile(rf"\d+(?:[.,:]\d+)+|{LETTERS}(?:[-'’]{LETTERS})*(?:-(?=\s|$))?|[^\w\s]")
PIECE = re.compile(r"@@(?: |$)")  # the joint that subword-nmt leaves inside a word
ESCAPES = {"&apos;": "'", "&quot;": '"', "&#91;": "[", "&#93;": "]", "&#124;": "|", "&lt;": "<", "&gt;": ">"}  # Moses

LEFT = frozenset(".,;:!?)]}%…")  # signs that stand at the word before them
RIGHT = frozenset("([{#$„‚")  # signs that stand at the word after them
QUOTES = frozenset("\"“”'‘’")  # some open and close


def split_words(sentence: str, lower: bool = True) -> list[str]:
    """The words and signs of a sentence, lower-cased where asked."""
    return WORD.findall(sentence.lower() if lower else sentence)


def join_words(words: Iterable[str]) -> str:
    """A sentence of these words: signs stand at their words again, quotation marks open and close in turn."""
    words = list(words)
    text, glue, opened = "", True, set()
    for i, word in enumerate(words):
        before, after = glue, word in RIGHT or word == "/"
        if word in LEFT or word == "/" or (len(word) > 1 and word[0] in "'’" and word[1].isalpha()):
            before = True
        elif word in QUOTES:
            before, after = _quote(word, words[i + 1 :], opened, glue)
        if word in ("„", "‚"):
            opened.add(word)
        text += word if before else " " + word
        glue = after
    return text


def join_pieces(pieces: Iterable[str]) -> str:
    """A sentence of the pieces of words that fairseq's script leaves: "@@ " joined, Moses' escapes undone."""
    text = PIECE.sub("", " ".join(pieces))
    for escape, sign in ESCAPES.items():
        text = text.replace(escape, sign)
    return join_words(text.replace("&amp;", "&").split())


def _quote(word: str, rest: list[str], opened: set[str], glue: bool) -> tuple[bool, bool]:
    """Whether a quotation mark stands at the word before it, and whether at the word after it."""
    partner = {"“": "„", "‘": "‚", "”": "“", "’": "‘"}.get(word)
    for mark in (partner, word, "„" if word == "”" else None):
        if mark in opened:
            opened.discard(mark)
            return True, False
    if word in "”’" or (word == "'" and "'" not in rest):  # closes what was never opened, or the dogs' bowl
        return True, False
    opened.add(word)
    return glue, True
