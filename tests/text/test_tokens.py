"""Sentences come apart into words and together again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lntutor.text.tokens import join_pieces, join_words, split_words

SENTENCES = [  # sentence, its words
    ("Ein Mann, der läuft.", "Ein|Mann|,|der|läuft|."),
    ("a well-known man's dog", "a|well-known|man's|dog"),
    ("the dogs' bowl", "the|dogs|'|bowl"),
    ("Bau- und Feuerwehrleute", "Bau-|und|Feuerwehrleute"),
    ("Er sagt „ja“.", "Er|sagt|„|ja|“|."),
    ('a "no parking" sign (red)', 'a|"|no|parking|"|sign|(|red|)'),
    ("“yes,” he says", "“|yes|,|”|he|says"),
    ("a man with a 'stop' sign", "a|man|with|a|'|stop|'|sign"),
    ("10,000 people at 12:30 paid $5.50", "10,000|people|at|12:30|paid|$|5.50"),
    ("and/or", "and|/|or"),
    ("scho\u0308n", "scho\u0308n"),  # an umlaut in two characters
    ("Was? Nein! Doch…", "Was|?|Nein|!|Doch|…"),
]


@pytest.mark.parametrize(("sentence", "words"), SENTENCES, ids=[sentence for sentence, _ in SENTENCES])
def test_a_sentence_comes_apart_and_together_again(sentence, words):
    """Oracle: the words as a person would divide them."""
    assert split_words(sentence, lower=False) == words.split("|")
    assert join_words(words.split("|")) == sentence


def test_words_are_lower_case_where_asked():
    """Oracle: str.lower, which knows ß and Ä."""
    assert split_words("Ärger, Straße") == ["ärger", ",", "straße"]


@given(st.text())
def test_no_visible_character_is_lost(sentence):
    """Oracle: the sentence without its blanks."""
    assert "".join(split_words(sentence, lower=False)) == "".join(sentence.split())


@given(st.lists(st.text(alphabet="abcäß", min_size=1)))
def test_plain_words_are_joined_by_single_blanks(words):
    """Oracle: str.join."""
    assert join_words(words) == " ".join(words)


@given(st.lists(st.sampled_from([*"abc.,;:!?()[]\"'“”„‘’‚/%$#-", "'s", "ab"])))
def test_any_row_of_words_gives_a_sentence_of_the_same_characters(words):
    """Oracle: the words written without blanks; a model may say anything."""
    assert join_words(words).replace(" ", "") == "".join(words)


@pytest.mark.parametrize(
    ("pieces", "sentence"),
    [
        ("we ' re on our w@@ ay .", "we' re on our way."),
        ("it &apos;s a thou@@ s@@ and &quot; dol@@ lars &quot; &amp; more", 'it\'s a thousand "dollars" & more'),
        ("ends in a hal@@", "ends in a hal"),
        ("user@@example", "user@@example"),
    ],
)
def test_pieces_are_joined_and_escapes_undone(pieces, sentence):
    """Oracle: what subword-nmt and Moses' tokenizer do, done backwards by hand."""
    assert join_pieces(pieces.split()) == sentence
