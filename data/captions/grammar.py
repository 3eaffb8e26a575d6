"""German and English forms of the captions: nouns, noun phrases, predicates. No chance, no choice of words.

Cases are "nom", "acc" and "dat". The tables are those of any German grammar: articles, and the strong, weak and mixed
endings of adjectives. Words come from lexicon.toml.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

LEXICON = tomllib.loads((Path(__file__).parent / "lexicon.toml").read_text(encoding="utf-8"))
CASES = ("nom", "acc", "dat")

# gender or number → ending in each of CASES
STRONG = {"m": ("er", "en", "em"), "f": ("e", "e", "er"), "n": ("es", "es", "em"), "pl": ("e", "e", "en")}
WEAK = {"m": ("e", "en", "en"), "f": ("e", "e", "en"), "n": ("e", "e", "en"), "pl": ("en", "en", "en")}
MIXED = {"m": ("er", "en", "en"), "f": ("e", "e", "en"), "n": ("es", "es", "en"), "pl": ("en", "en", "en")}
EIN_WORD = {"m": ("", "en", "em"), "f": ("e", "e", "er"), "n": ("", "", "em"), "pl": ("e", "e", "en")}  # ein, sein, ihr
DEFINITE = {  # the articles themselves
    "m": ("der", "den", "dem"),
    "f": ("die", "die", "der"),
    "n": ("das", "das", "dem"),
    "pl": ("die", "die", "den"),
}

CONTRACTIONS = {"an dem": "am", "in dem": "im", "in das": "ins", "von dem": "vom", "zu dem": "zum", "zu der": "zur"}
QUANTITIES = {german: english for german, english, _ in LEXICON["quantities"]}


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun of both languages; a mass noun has no plural, and "pants" no English singular."""

    singular: str
    gender: str  # m | f | n
    plural: str
    oblique: str  # singular in the accusative and dative, where weak nouns differ
    english: str
    english_plural: str
    tags: frozenset[str]

    def german(self, case: str, plural: bool = False) -> str:
        """The form of a case; the dative plural takes -n unless it ends in n or s."""
        if plural:
            return self.plural + "n" * (case == "dat" and self.plural[-1] not in "ns")
        return self.singular if case == "nom" else self.oblique


@dataclass(frozen=True, eq=False)
class Adjective:
    """A stem that takes endings, its English, its order before the noun (0 first), and the nouns it fits."""

    stem: str
    english: str
    order: int
    fits: tuple[frozenset[str], ...]

    def german(self, ending: str) -> str:
        """Stem and ending; rosa and lila take none."""
        return self.stem.removesuffix("*") if self.stem.endswith("*") else self.stem + ending


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb of both languages; the third person plural is the infinitive."""

    third: str
    infinitive: str  # without its particle
    particle: str
    participle: str
    base: str
    ing: str
    english_participle: str
    reflexive: bool


def expression(text: str) -> tuple[frozenset[str], ...]:
    """ "child adult+male" → any of these sets of tags."""
    return tuple(frozenset(part.split("+")) for part in text.split())


def fits(tags: frozenset[str], wanted: tuple[frozenset[str], ...]) -> bool:
    """Some part of the tag expression is in the tags."""
    return any(part <= tags for part in wanted)


def read_noun(singular, gender, plural, oblique, english, english_plural, tags) -> Noun:
    return Noun(singular, gender, plural, oblique or singular, english, english_plural, frozenset(tags.split()))


def read_adjective(stem, english, order, nouns) -> Adjective:
    return Adjective(stem, english, LEXICON["adjective_orders"].index(order), expression(nouns))


NOUNS = {row[0]: read_noun(*row) for row in LEXICON["nouns"]}
ADJECTIVES = [read_adjective(*row) for row in LEXICON["adjectives"]]
VERBS = {name: Verb(*row, reflexive=name.startswith("sich ")) for name, row in LEXICON["verbs"].items()}


@dataclass(frozen=True)
class NounPhrase:
    """A determiner, adjectives and a noun.

    The determiner is "ein", "der", "sein", "ihr", a quantity of the lexicon, "Gruppe" (eine Gruppe von), or "" for mass
    nouns and bare plurals. A possessive says in `owner` which English word it stands for: his, her, its, their.
    """

    noun: Noun
    adjectives: tuple[Adjective, ...] = ()
    determiner: str = "ein"
    plural: bool = False
    owner: str = ""

    def german(self, case: str) -> str:
        """The phrase in a case."""
        if self.determiner == "Gruppe":
            members = NounPhrase(self.noun, self.adjectives, "", plural=True)
            return f"ein{EIN_WORD['f'][CASES.index(case)]} Gruppe von {members.german('dat')}"
        row, column = ("pl" if self.plural else self.noun.gender), CASES.index(case)
        if self.determiner == "der":
            article, endings = DEFINITE[row][column], WEAK
        elif self.determiner in ("ein", "sein", "ihr"):
            article, endings = self.determiner + EIN_WORD[row][column], MIXED
        else:  # zwei stays, einig- takes the ending that the adjective takes too
            stem = self.determiner.removesuffix("-")
            article, endings = stem + STRONG["pl"][column] * self.determiner.endswith("-"), STRONG
        adjectives = (adjective.german(endings[row][column]) for adjective in self.adjectives)
        return join(article, *adjectives, self.noun.german(case, self.plural))

    def english(self) -> str:
        """The phrase in English: a or an by the sound that follows, nothing before pants."""
        plural = self.plural or not self.noun.english
        noun = self.noun.english_plural if plural else self.noun.english
        words = join(*(adjective.english for adjective in self.adjectives), noun)
        if self.determiner == "Gruppe":
            return f"a group of {words}"
        if self.determiner == "ein":
            return words if plural else with_article(words)
        return join("the" if self.determiner == "der" else self.owner or QUANTITIES.get(self.determiner, ""), words)

    @property
    def nouns(self) -> tuple[Noun, ...]:
        return (self.noun,)

    @property
    def several(self) -> bool:
        """More than one is meant."""
        return self.plural

    @property
    def agreement(self) -> bool:
        """Whether the verb is plural, in both languages: a group is one."""
        return self.plural and self.determiner != "Gruppe"

    @property
    def possessive(self) -> tuple[str, str] | None:
        """sein or ihr by the German gender, his, her or its by what the noun means; None where English has to guess."""
        if self.plural:
            return None if self.determiner == "Gruppe" else ("ihr", "their")
        words = {"male": "his", "female": "her", "animal": "its"}
        english = next((words[tag] for tag in words if tag in self.noun.tags), None)
        return english and ("ihr" if self.noun.gender == "f" else "sein", english)

    @property
    def pronoun(self) -> tuple[str, str] | None:
        """er, sie or sie as a subject; None where German and English would not agree on one (das Mädchen, a group)."""
        if self.plural:
            return None if self.determiner == "Gruppe" else ("sie", "they")
        if self.noun.gender == "m" and "male" in self.noun.tags:
            return "er", "he"
        return ("sie", "she") if self.noun.gender == "f" and "female" in self.noun.tags else None


@dataclass(frozen=True)
class Pair:
    """Two noun phrases joined by und; a plural subject."""

    first: NounPhrase
    second: NounPhrase
    several = agreement = plural = True
    possessive, pronoun = ("ihr", "their"), ("sie", "they")

    def german(self, case: str) -> str:
        return f"{self.first.german(case)} und {self.second.german(case)}"

    def english(self) -> str:
        return f"{self.first.english()} and {self.second.english()}"

    @property
    def nouns(self) -> tuple[Noun, ...]:
        return self.first.nouns + self.second.nouns

    @property
    def adjectives(self) -> tuple[Adjective, ...]:
        return self.first.adjectives + self.second.adjectives


@dataclass(frozen=True)
class Predicate:
    """A verb and what it takes, the same in both languages but for the order.

    German has receiver, place, object, goal, and the place after an object that is already known; English has receiver,
    object, goal, place. A goal may bring a particle of its own: die Straße entlang.
    """

    verb: Verb
    receiver: tuple[str, str] = ("", "")  # German, English
    object: tuple[str, str] = ("", "")
    goal: tuple[str, str] = ("", "")
    place: tuple[str, str] = ("", "")
    goal_particle: str = ""
    known_object: bool = False

    @property
    def particle(self) -> str:
        return self.verb.particle or self.goal_particle

    @property
    def somewhere(self) -> bool:
        return bool(self.place[0] or self.goal[0])

    def middle(self) -> str:
        """What German puts between the finite verb and the end of the clause."""
        parts = [self.place[0], self.object[0]]
        return join(self.receiver[0], *(reversed(parts) if self.known_object else parts), self.goal[0])

    def finite(self, plural: bool) -> str:
        return self.verb.infinitive if plural else self.verb.third

    def main(self, plural: bool, subject: str = "") -> str:
        """Main clause from the verb on, particle last; the subject follows the verb where something else came first."""
        return join(self.finite(plural), "sich" * self.verb.reflexive, subject, self.middle(), self.particle)

    def verb_final(self, plural: bool, subject: str = "") -> str:
        """Subordinate clause after its conjunction or pronoun: sich ein Kind versteckt, einen Ball aufhebt."""
        return join("sich" * self.verb.reflexive, subject, self.middle(), self.particle + self.finite(plural))

    def to_infinitive(self) -> str:
        """Infinitive clause: … aufzuheben, … zu fangen."""
        infinitive = f"{self.particle}zu{self.verb.infinitive}" if self.particle else f"zu {self.verb.infinitive}"
        return join("sich" * self.verb.reflexive, self.middle(), infinitive)

    def english(self, verb: str) -> str:
        """The English words after a form of the verb: its -ing form or its base."""
        return join(verb, self.receiver[1], self.object[1], self.goal[1], self.place[1])

    @property
    def ing(self) -> str:
        return self.english(self.verb.ing)


def join(*words: str) -> str:
    """Words with one space between them, empty ones left out."""
    return " ".join(word for word in words if word)


def with_article(words: str) -> str:
    """a or an; "uni" sounds like a consonant."""
    return f"an {words}" if words[0] in "aeiou" and not words.startswith("uni") else f"a {words}"


def prepositional(preposition: str, phrase: NounPhrase, case: str) -> str:
    """Preposition and noun phrase, contracted as in speech: im, ins, zur."""
    first, second, *rest = join(preposition, phrase.german(case)).split()
    both = f"{first} {second}"
    return join(CONTRACTIONS.get(both, both), *rest)


def sentence(text: str) -> str:
    """Capital letter and full stop."""
    return text[0].upper() + text[1:] + "."
