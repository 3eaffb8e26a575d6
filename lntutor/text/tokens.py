"""Split sentences into the words that a model reads, and join words into the sentences that are scored."""

from __future__ import annotations

import re
from collections.abc import Iterable

# A number such as 10,000; a word with its hyphens and apostrophes (also the hyphen of "Bau- und"); or punctuation.
LETTERS = r"[\w\u0300-\u036f]+"  # an accent may be a separate character
WORD = re.compile(rf"\d+(?:[.,:]\d+)+|{LETTERS}(?:[-'’]{LETTERS})*(?:-(?=\s|$))?|[^\w\s]")
PIECE = re.compile(r"@@(?: |$)")  # what subword-nmt leaves between the pieces of a word
ESCAPES = {"&apos;": "'", "&quot;": '"', "&#91;": "[", "&#93;": "]", "&#124;": "|", "&lt;": "<", "&gt;": ">"}  # Moses

LEFT = frozenset(".,;:!?)]}%…")  # follow a word without a space
RIGHT = frozenset("([{#$„‚")  # precede a word without a space
QUOTES = frozenset("\"“”'‘’")  # the same mark may open and close


def split_words(sentence: str, lower: bool = True) -> list[str]:
    """The words and punctuation marks of a sentence, lower-cased if `lower`."""
    return WORD.findall(sentence.lower() if lower else sentence)


def join_words(words: Iterable[str]) -> str:
    """These words as a sentence: punctuation is joined to its words; quotation marks open and close in turn."""
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
    """A sentence from the pieces of fairseq's script: joined at "@@ ", with Moses' escapes replaced."""
    text = PIECE.sub("", " ".join(pieces))
    for escape, sign in ESCAPES.items():
        text = text.replace(escape, sign)
    return join_words(text.replace("&amp;", "&").split())


def _quote(word: str, rest: list[str], opened: set[str], glue: bool) -> tuple[bool, bool]:
    """Whether a quotation mark is joined to the word before it, and whether to the word after it."""
    partner = {"“": "„", "‘": "‚", "”": "“", "’": "‘"}.get(word)
    for mark in (partner, word, "„" if word == "”" else None):
        if mark in opened:
            opened.discard(mark)
            return True, False
    if word in "”’" or (word == "'" and "'" not in rest):  # closes nothing, or is an apostrophe: the dogs' bowl
        return True, False
    opened.add(word)
    return glue, True
