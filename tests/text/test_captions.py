"""The captions are right in both languages, the same everywhere, and what the folder says they are."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "data" / "captions"))

import generate
import sentences
from grammar import ADJECTIVES, LEXICON, NOUNS, VERBS, NounPhrase, Pair, Predicate, fits, prepositional

FOLDER = generate.FOLDER
SPLITS = {"train": 10_000, "val": 1_000, "test": 1_000}
FILES = [f"{split}.{language}" for split in SPLITS for language in ("de", "en")]


def lines(name: str) -> list[str]:
    """Split at "\\n" alone, the last line ended too."""
    *found, last = (FOLDER / name).read_bytes().decode("utf-8").split("\n")
    assert last == ""
    return found


def pairs() -> list[tuple[str, str]]:
    return [pair for split in SPLITS for pair in zip(lines(f"{split}.de"), lines(f"{split}.en"), strict=True)]


@pytest.fixture(scope="module")
def draws() -> dict[str, set[str]]:
    """German → every English it was given, in 100,000 draws of another seed than the corpus has."""
    author, found = sentences.Author(seed=1), {}
    for german, english in (author.caption() for _ in range(100_000)):
        found.setdefault(german, set()).add(english)
    return found


def phrase(noun, adjectives="", determiner="ein", plural=False, owner="") -> NounPhrase:
    """A noun phrase by the names of its words; the adjectives must be ones that fit the noun."""
    found = NOUNS[noun]
    chosen = [next(a for a in ADJECTIVES if a.stem == stem and fits(found.tags, a.fits)) for stem in adjectives.split()]
    return NounPhrase(found, tuple(chosen), determiner, plural, owner)


# The files


@pytest.mark.parametrize("name", FILES)
def test_every_line_is_one_clean_sentence(name):
    """Oracle: the letters, marks and lengths that the README promises."""
    letters = "A-Za-zÄÖÜäöüß" if name.endswith("de") else "A-Za-z-"
    found = lines(name)
    assert len(found) == SPLITS[name.partition(".")[0]]
    for line in found:
        assert re.fullmatch(rf"[A-ZÄÖÜ][{letters}]*(,? [{letters}]+)+\.", line), line
        assert 3 <= len(line.split()) <= 24, line


def test_no_sentence_stands_twice_in_all_three_parts():
    """Oracle: a set has no member twice."""
    german = [german for german, _ in pairs()]
    assert len(german) == 12_000
    assert len(set(german)) == len(german)


def test_the_command_gives_the_very_bytes_that_ship():
    """Oracle: the files themselves, made once; another hash seed must change nothing."""
    command = [sys.executable, str(FOLDER / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": "1"})
    assert done.returncode == 0, done.stderr


def test_checksums_are_those_of_the_files():
    """Oracle: hashlib over the bytes on disk."""
    expected = [f"{hashlib.sha256((FOLDER / name).read_bytes()).hexdigest()}  {name}" for name in FILES]
    assert lines("SHA256SUMS") == expected


def test_the_check_names_what_is_changed_or_missing_and_the_command_mends_it(tmp_path, capsys):
    """Oracle: the damage done here."""
    for name in [*FILES, "SHA256SUMS"]:
        shutil.copy(FOLDER / name, tmp_path)
    (tmp_path / "val.en").write_text("Another text.\n", encoding="utf-8")
    (tmp_path / "test.de").unlink()
    before = sorted(path.name for path in tmp_path.iterdir())
    assert generate.main(["--check", "--folder", str(tmp_path)]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    errors = capsys.readouterr().err
    assert "test.de is missing" in errors
    assert "val.en differs" in errors
    assert errors.count("\n") == 2
    assert generate.main(["--folder", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*FILES, "SHA256SUMS"])
    assert all((tmp_path / name).read_bytes() == (FOLDER / name).read_bytes() for name in FILES)


def test_the_readme_shows_sentences_that_ship():
    """Oracle: train.de and train.en."""
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    examples = re.findall(r"^\| (\w.*\.) \| (\w.*\.) \|", readme, re.MULTILINE)
    assert len(examples) >= 5
    assert set(examples) <= set(pairs())


# German forms


PHRASES = [  # nominative / accusative / dative / English
    # mixed endings, after ein and the possessives
    (("Hund", "klein"), "ein kleiner Hund / einen kleinen Hund / einem kleinen Hund / a small dog"),
    (("Katze", "klein"), "eine kleine Katze / eine kleine Katze / einer kleinen Katze / a small cat"),
    (("Pferd", "klein"), "ein kleines Pferd / ein kleines Pferd / einem kleinen Pferd / a small horse"),
    (("Hut", "alt", "sein", False, "his"), "sein alter Hut / seinen alten Hut / seinem alten Hut / his old hat"),
    (("Jacke", "neu", "ihr", False, "her"), "ihre neue Jacke / ihre neue Jacke / ihrer neuen Jacke / her new jacket"),
    (("Hemd", "rot", "ihr", True, "their"),
     "ihre roten Hemden / ihre roten Hemden / ihren roten Hemden / their red shirts"),
    # weak endings, after der
    (("Mann", "groß", "der"), "der große Mann / den großen Mann / dem großen Mann / the tall man"),
    (("Frau", "jung", "der"), "die junge Frau / die junge Frau / der jungen Frau / the young woman"),
    (("Kind", "klein", "der"), "das kleine Kind / das kleine Kind / dem kleinen Kind / the little child"),
    (("Kind", "klein", "der", True),
     "die kleinen Kinder / die kleinen Kinder / den kleinen Kindern / the little children"),
    # strong endings: no article, numbers, quantities
    (("Kaffee", "heiß", ""), "heißer Kaffee / heißen Kaffee / heißem Kaffee / hot coffee"),
    (("Suppe", "heiß", ""), "heiße Suppe / heiße Suppe / heißer Suppe / hot soup"),
    (("Wasser", "kalt", ""), "kaltes Wasser / kaltes Wasser / kaltem Wasser / cold water"),
    (("Kuh", "groß", "drei", True), "drei große Kühe / drei große Kühe / drei großen Kühen / three big cows"),
    (("Auto", "neu", "zwei", True), "zwei neue Autos / zwei neue Autos / zwei neuen Autos / two new cars"),
    (("Mann", "alt", "einig-", True), "einige alte Männer / einige alte Männer / einigen alten Männern / some old men"),
    (("Frau", "", "mehrer-", True), "mehrere Frauen / mehrere Frauen / mehreren Frauen / several women"),
    (("Arbeiter", "müd", "viel-", True),
     "viele müde Arbeiter / viele müde Arbeiter / vielen müden Arbeitern / many tired workers"),
    (("Mädchen", "blond", "", True), "blonde Mädchen / blonde Mädchen / blonden Mädchen / blond girls"),
    # weak nouns
    (("Junge", ""), "ein Junge / einen Jungen / einem Jungen / a boy"),
    (("Student", "", "der"), "der Student / den Studenten / dem Studenten / the student"),
    (("Elefant", "grau"), "ein grauer Elefant / einen grauen Elefanten / einem grauen Elefanten / a gray elephant"),
    (("Bauer", "", "vier", True), "vier Bauern / vier Bauern / vier Bauern / four farmers"),
    # stems, two adjectives, English without an article
    (("Hose", "dunkl"), "eine dunkle Hose / eine dunkle Hose / einer dunklen Hose / dark pants"),
    (("Rock", "rosa*"), "ein rosa Rock / einen rosa Rock / einem rosa Rock / a pink skirt"),
    (("Zaun", "hoh hölzern"),
     "ein hoher hölzerner Zaun / einen hohen hölzernen Zaun / einem hohen hölzernen Zaun / a high wooden fence"),
    (("Brille", "", "sein", False, "his"), "seine Brille / seine Brille / seiner Brille / his glasses"),
    (
        ("Mann", "alt", "Gruppe", True),
        "eine Gruppe von alten Männern / eine Gruppe von alten Männern / einer Gruppe von alten Männern"
        " / a group of old men",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("given", "forms"), PHRASES)
def test_noun_phrases_have_the_forms_of_a_german_grammar(given, forms):
    """Oracle: declined by hand from the tables of school grammar."""
    found = phrase(*given)
    assert [*(found.german(case) for case in ("nom", "acc", "dat")), found.english()] == forms.split(" / ")


@pytest.mark.parametrize(
    ("preposition", "given", "case", "expected"),
    [
        ("in", ("Park", "", "der"), "dat", "im Park"),
        ("an", ("See", "", "der"), "dat", "am See"),
        ("in", ("Wasser", "", "der"), "acc", "ins Wasser"),
        ("zu", ("Bahnhof", "", "der"), "dat", "zum Bahnhof"),
        ("zu", ("Kirche", "", "der"), "dat", "zur Kirche"),
        ("von", ("Mann", "jung", "der"), "dat", "vom jungen Mann"),
        ("von", ("Frau", "", "der"), "dat", "von der Frau"),
        ("in", ("Luft", "", "der"), "acc", "in die Luft"),
        ("in", ("Fluss", "breit"), "acc", "in einen breiten Fluss"),
        ("auf", ("Boden", "", "der"), "dat", "auf dem Boden"),
        ("zwischen", ("Haus", "alt", "zwei", True), "dat", "zwischen zwei alten Häusern"),
        ("", ("Straße", "", "der"), "acc", "die Straße"),
    ],
)
def test_prepositions_contract_as_in_speech(preposition, given, case, expected):
    """Oracle: written by hand."""
    assert prepositional(preposition, phrase(*given), case) == expected


ENTLANG = {"goal": ("die Straße", "down the street"), "goal_particle": "entlang"}
BALL = {"object": ("einen Ball", "a ball")}
PARK = {"place": ("im Park", "in the park")}
BOOK = {"object": ("ein Buch", "a book")}
HIS_FATHER = {"object": ("seinen Vater", "his father"), "known_object": True}
A_WOMAN = {"receiver": ("einer Frau", "a woman")}


CLAUSES = [  # second / last / with zu / English
    ("fangen", BALL, "fängt einen Ball / einen Ball fängt / einen Ball zu fangen / catching a ball"),
    ("aufheben", BALL, "hebt einen Ball auf / einen Ball aufhebt / einen Ball aufzuheben / picking up a ball"),
    ("gehen", ENTLANG,
     "geht die Straße entlang / die Straße entlanggeht / die Straße entlangzugehen / walking down the street"),
    ("sich ausruhen", PARK,
     "ruht sich im Park aus / sich im Park ausruht / sich im Park auszuruhen / resting in the park"),
    ("lesen", BOOK | PARK,
     "liest im Park ein Buch / im Park ein Buch liest / im Park ein Buch zu lesen / reading a book in the park"),
    (
        "umarmen",
        HIS_FATHER | PARK,
        "umarmt seinen Vater im Park / seinen Vater im Park umarmt / seinen Vater im Park zu umarmen"
        " / hugging his father in the park",
    ),
    (
        "geben",
        A_WOMAN | BALL,
        "gibt einer Frau einen Ball / einer Frau einen Ball gibt / einer Frau einen Ball zu geben"
        " / giving a woman a ball",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "parts", "forms"), CLAUSES)
def test_verbs_stand_second_last_and_with_zu(verb, parts, forms):
    """Oracle: written by hand."""
    found = Predicate(VERBS[verb], **parts)
    assert [found.main(False), found.verb_final(False), found.to_infinitive(), found.ing] == forms.split(" / ")


def test_the_subject_comes_after_the_verb_where_the_place_comes_first():
    """Oracle: Im Park ruhen sich zwei Frauen aus; während sich zwei Frauen ausruhen."""
    rest = Predicate(VERBS["sich ausruhen"])
    assert rest.main(True, "zwei Frauen") == "ruhen sich zwei Frauen aus"
    assert rest.verb_final(True, "zwei Frauen") == "sich zwei Frauen ausruhen"


@pytest.mark.parametrize(
    ("owner", "possessive", "pronoun"),
    [
        (phrase("Mann"), ("sein", "his"), ("er", "he")),
        (phrase("Frau"), ("ihr", "her"), ("sie", "she")),
        (phrase("Mädchen"), ("sein", "her"), None),
        (phrase("Kind"), None, None),
        (phrase("Person"), None, None),
        (phrase("Hund"), ("sein", "its"), None),
        (phrase("Katze"), ("ihr", "its"), None),
        (phrase("Hund", "", "zwei", True), ("ihr", "their"), ("sie", "they")),
        (phrase("Mann", "", "Gruppe", True), None, None),
        (Pair(phrase("Mann"), phrase("Kind")), ("ihr", "their"), ("sie", "they")),
    ],
)
def test_possessives_follow_gender_in_german_and_sex_in_english(owner, possessive, pronoun):
    """Oracle: written by hand; None where a translator would have to guess."""
    assert owner.possessive == possessive
    assert owner.pronoun == pronoun


@pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))
def test_participles_have_the_ge_that_the_verb_asks_for(verb):
    """Oracle: ge- after the particle, none in front of -ieren or an unstressed prefix, and -t or -en at the end."""
    prefixed = re.match(r"ver|unter|um", verb.infinitive) or verb.infinitive.endswith("ieren")
    assert verb.participle.startswith(verb.particle + ("" if prefixed else "ge"))
    assert verb.participle.endswith(("t", "en"))


# Whole sentences


def test_no_german_sentence_has_two_translations(draws):
    """Oracle: 100,000 draws and the corpus; one German sentence, one English."""
    assert len(draws) > 80_000
    assert [german for german, english in draws.items() if len(english) > 1] == []
    assert [german for german, english in pairs() if draws.get(german, {english}) != {english}] == []


TRANSLATED = {
    "Ein Mann singt.": "A man is singing.",
    "Eine Frau geht die Straße entlang.": "A woman is walking down the street.",
    "Ein Mann geht an einem Haus vorbei.": "A man is walking past a house.",
    "Ein Mann springt ins Wasser.": "A man is jumping into the water.",
    "Im Wald verstecken sich zwei Kinder.": "In the forest, two children are hiding.",
    "Auf einer Wiese grast ein Pferd.": "In a meadow, a horse is grazing.",
    "Eine Künstlerin fährt ein Auto.": "An artist is driving a car.",
    "Ein Mann fährt auf einem Fahrrad.": "A man is riding a bicycle.",
    "Ein Mann trägt eine Hose.": "A man is wearing pants.",
    "Eine Frau trägt eine Kiste.": "A woman is carrying a box.",
    "Ein Koch hilft seinem Vater.": "A cook is helping his father.",
    "Ein Mädchen küsst seine Mutter.": "A girl is kissing her mother.",
    "Eine Sängerin hilft ihrer Schwester.": "A singer is helping her sister.",
    "Ein Kind hebt einen Ball auf.": "A child is picking up a ball.",
    "Ein Mann versucht, einen Ball aufzuheben.": "A man is trying to pick up a ball.",
    "Ein Junge versucht, auf einen Baum zu klettern.": "A boy is trying to climb up a tree.",
    "Ein Hund wird von einer Frau gestreichelt.": "A dog is being petted by a woman.",
    "Ein Kind sitzt im Gras und isst eine Pizza.": "A child is sitting in the grass and eating a pizza.",
    "Eine Gruppe von Kindern schwimmt im Wasser.": "A group of children is swimming in the water.",
    "Zwei Männer spielen Karten.": "Two men are playing cards.",
    "Ein Mann, der einen Pullover trägt, singt.": "A man wearing a sweater is singing.",
    "Ein Clown gibt einer Person eine Blume.": "A clown is giving a person a flower.",
}


@pytest.mark.parametrize("german", TRANSLATED)
def test_whole_sentences_are_translated_as_a_person_would(draws, german):
    """Oracle: translated by hand."""
    assert draws.get(german, "not drawn") == {TRANSLATED[german]}


GENDERS = {
    "m": "Mann Hund Vogel Hut Mantel Schal Ball Stock Korb Eimer Koffer Apfel Baum Zaun Felsen Hügel See Berg",
    "f": "Frau Katze Kuh Ente Ziege Jacke Hose Brille Mütze Tasche Flasche Blume Zeitung Puppe Wiese Brücke Bank",
    "n": "Mädchen Kind Baby Pferd Schaf Hemd Kleid Buch Schild Seil Bild Fahrrad Auto Boot Motorrad Feld Sofa Zelt",
}
ARTICLES = {  # with the endings that an adjective takes after them
    "m": r"(ein|sein|ihr) (\w+er )*|((ein|sein|ihr)e[nm]|den|dem|im|am|zum|vom) (\w+en )*|der (\w+e )*",
    "f": r"((ein|sein|ihr)e|die) (\w+e )*|((ein|sein|ihr)er|der|zur) (\w+en )*",
    "n": r"(ein|sein|ihr) (\w+es )*|((ein|sein|ihr)em|dem|im|am|zum|vom) (\w+en )*|(das|ins) (\w+e )*",
}


@pytest.mark.parametrize("gender", GENDERS)
def test_articles_and_adjectives_agree_with_the_noun(gender, draws):
    """Oracle: the genders of sixty nouns, and which endings go with which article, written by hand."""
    article = r"\b(?:(?:[Ee]in|sein|ihr)(?:e[nmr]?)?|[Dd](?:er|ie|as|en|em)|ins|[Ii]m|[Aa]m|zu[mr]|vom)\b"
    nouns = GENDERS[gender].replace(" ", "|")
    # after a comma der, die, das are relative pronouns, not articles
    phrases = re.compile(rf"(?<!, )({article}) ((?:(?!{article})[a-zäöüß]+ )*)(?:{nouns})\b")
    seen = 0
    for german in draws:
        for article, adjectives in phrases.findall(re.sub("(rosa|lila) ", "", german)):
            assert re.fullmatch(ARTICLES[gender], f"{article.lower()} {adjectives}"), german
            seen += 1
    assert seen > 10_000


def test_english_agrees_with_the_german_number(draws):
    """Oracle: a sentence that begins with zwei, einige … has "are" first, one that begins with eine Gruppe has "is"."""
    for german, (english,) in draws.items():
        first = re.search(r"\b(is|are)\b", english)
        if first and re.match(r"(Zwei|Drei|Vier|Fünf|Einige|Viele|Mehrere) ", german):
            assert first[0] == "are", german
        if first and german.startswith("Eine Gruppe"):
            assert first[0] == "is", german


def test_articles_of_the_english_follow_the_sound(draws):
    """Oracle: an before a vowel letter, but a uniform."""
    for (english,) in draws.values():
        for article, word in re.findall(r"\b([Aa]n?) (\w+)", english):
            assert (article.lower() == "an") == (word[0] in "aeiou" and word != "uniform"), english


def test_nobody_does_what_the_lexicon_does_not_let_them(draws):
    """Oracle: nonsense that a reader would laugh at, written by hand."""
    colours = "red|blue|white|black|green|brown|yellow|gray|pink|purple|striped|plaid|colorful|spotted|silver|dark"
    nonsense = [
        rf"\b({colours}) ({colours})\b",
        r"\b(baby|babies)\b( (?!while|by)\S+)* (repairing|driving|riding|cooking|selling|beer|wine|walking|jumping)\b",
        r"\b(boy|girl|child|children)s? is (driving|drinking (beer|wine)|selling|repairing)",
        r"\bold (boy|girl|child|baby)|young (boy|girl|child|baby|grand)|bearded (woman|girl|boy)|old puppy",
        r"^\w+ (\w+ )?(cow|sheep|horse|goat|elephant)s? (is|are) (lying|sleeping|sitting) on a (couch|bench|blanket)",
        r"\b(man|boy)\b.* in (a|an) (\w+ )*(dress|skirt) is|hugging (him|her|them)sel",
        r"^A (\w+ )?(man|woman|boy|girl) is talking( in the \w+| on the \w+)?\.",
    ]
    for (english,) in draws.values():
        for pattern in nonsense:
            assert not re.search(pattern, english), english


def test_every_tag_that_is_asked_for_is_given_to_some_word():
    """Oracle: the tables of nouns, places and goals; a misspelt tag would silently fit nothing."""
    given = {"nouns": set(), "places": set(), "goals": set()}
    for table, tags in given.items():
        tags.update(tag for row in LEXICON[table] for tag in row[-1].split())
    asked = {"object": "nouns", "receiver": "nouns", "who": "nouns", "place": "places", "goal": "goals"}
    for row in LEXICON["actions"]:
        for key, table in asked.items():
            assert set(re.findall(r"\w+", row.get(key, ""))) <= given[table], row
    for row in LEXICON["adjectives"]:
        assert set(re.findall(r"\w+", row[-1])) <= given["nouns"], row


def test_the_vocabulary_is_a_few_hundred_words_per_language():
    """Oracle: words counted in the files, lower-cased."""
    for language in ("de", "en"):
        text = " ".join(line for split in SPLITS for line in lines(f"{split}.{language}"))
        assert 300 < len(set(re.findall(r"[\w-]+", text.lower()))) < 900


def test_every_pattern_and_every_verb_is_drawn():
    """Oracle: the names of the patterns and the lexicon's verbs, against what 5,000 captions used."""
    author, patterns, verbs = sentences.Author(seed=2), set(), set()
    for _ in range(5_000):
        subject = author.subject()
        if action := author.action(subject):
            verbs.add(action.verb)
        pattern = author.pick(list(sentences.PATTERNS), list(sentences.PATTERNS.values()))
        if pattern(author, subject):
            patterns.add(pattern)
    assert patterns == set(sentences.PATTERNS)
    assert verbs == set(VERBS.values()) - {VERBS["versuchen"]}
