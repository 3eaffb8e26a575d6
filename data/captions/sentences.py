"""Captions drawn at random from the grammar: who does what, where, in one of ten sentence patterns.

Only `Random.random()` is used, whose values for an integer seed Python promises to keep, and weights that are
quotients of small integers, which every machine rounds alike. So one seed gives the same sentences everywhere.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from random import Random

from grammar import (
    ADJECTIVES,
    DEFINITE,
    LEXICON,
    NOUNS,
    VERBS,
    Adjective,
    Noun,
    NounPhrase,
    Pair,
    Predicate,
    Verb,
    expression,
    fits,
    join,
    prepositional,
    sentence,
)

Subject = NounPhrase | Pair
Tags = tuple[frozenset[str], ...]


@dataclass(frozen=True, eq=False)
class Action:
    """A row of the lexicon's table of actions, which explains the keys."""

    verb: Verb
    weight: int
    who: Tags
    count: str = "any"
    unless: frozenset[str] = frozenset()
    object: Tags = ()
    case: str = "acc"
    mit: str = ""
    with_: str = ""
    described: float = 0.35
    owned: float = 0.0
    number: str = "any"
    receiver: Tags = ()
    place: Tags = ()
    where: float = 0.4
    goal: Tags = ()
    whither: float = 1.0
    busy: frozenset[str] = frozenset()
    dressed: bool = True
    attempt: bool = False
    passive: bool = False


def read_action(row: dict) -> Action:
    """An action from its row: tag expressions parsed, the rest as it stands."""
    row = {("with_" if key == "with" else key): value for key, value in row.items()}
    for key in ("who", "object", "receiver", "place", "goal"):
        row[key] = expression(row.get(key, ""))
    for key in ("busy", "unless"):
        row[key] = frozenset(row.get(key, "").split())
    return Action(**row | {"verb": VERBS[row["verb"]]})


ACTIONS = [read_action(row) for row in LEXICON["actions"]]
WEAR = VERBS["tragen:wear"]
COMMON_FIRST = list(accumulate(1 / (i + 3) for i in range(len(NOUNS))))


@cache
def nouns_that_fit(wanted: Tags) -> tuple[Noun, ...]:
    return tuple(noun for noun in NOUNS.values() if fits(noun.tags, wanted))


@cache
def adjectives_that_fit(noun: Noun) -> tuple[Adjective, ...]:
    return tuple(adjective for adjective in ADJECTIVES if fits(noun.tags, adjective.fits))


@cache
def rows_that_fit(table: str, wanted: Tags) -> tuple[list, ...]:
    return tuple(row for row in LEXICON[table] if fits(frozenset(row[-1].split()), wanted))


@cache
def actions_of(nouns: tuple[Noun, ...], several: bool, owner: bool, busy: frozenset, wanted: tuple) -> list[Action]:
    """What such a subject can do while parts of it are busy, of the actions that have the wanted values."""
    return [
        action
        for action in ACTIONS
        if all(fits(noun.tags, action.who) for noun in nouns)
        and action.count in ("any", "many" if several else "one")
        and (owner or action.owned < 1)
        and not busy & action.busy
        and all(getattr(action, key) == value for key, value in wanted)
    ]


class Author:
    """One random stream, read as decisions."""

    def __init__(self, seed: int):
        self.random = Random(seed).random

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def pick(self, items: Sequence, weights: Sequence[float] | None = None):
        """One item; without weights item i has 1 / (i + 3), so that some words are common and some rare."""
        sums = list(accumulate(weights)) if weights else COMMON_FIRST
        last = len(items) - 1
        return items[bisect_right(sums, self.random() * sums[last], hi=last)]

    def adjectives(self, noun: Noun, first: float, second: float = 0.0) -> tuple[Adjective, ...]:
        """None, one or two of different orders, in the order in which both languages put them."""
        choice = adjectives_that_fit(noun)
        if not choice or not self.chance(first):
            return ()
        one = self.pick(choice)
        others = [adjective for adjective in choice if adjective.order != one.order]
        if not others or not self.chance(second):
            return (one,)
        return tuple(sorted((one, self.pick(others)), key=lambda adjective: adjective.order))

    def quantity(self) -> str:
        rows = LEXICON["quantities"]
        return self.pick(rows, [row[2] for row in rows])[0]

    def phrase(self, noun: Noun, plural: float, adjective: float = 0.35) -> NounPhrase:
        """A noun with an indefinite article, or quantified as often as `plural` says; mass nouns stand alone."""
        adjectives = self.adjectives(noun, adjective, 0.12)
        if not noun.plural:
            return NounPhrase(noun, adjectives, "")
        if self.chance(plural) and "one" not in noun.tags and noun.english:
            return NounPhrase(noun, adjectives, self.quantity(), plural=True)
        return NounPhrase(noun, adjectives)

    def subject(self) -> Subject:
        """People five times in six, else animals; one, several, a group, or two joined by und."""
        if self.chance(0.16):
            return self.phrase(self.pick(nouns_that_fit(expression("animal"))), plural=0.25, adjective=0.5)
        people = nouns_that_fit(expression("person baby"))
        phrase = self.phrase(self.pick(people), plural=0.27, adjective=0.45)
        if phrase.plural:
            return replace(phrase, determiner="Gruppe") if self.chance(0.14) else phrase
        if self.chance(0.09):
            others = [noun for noun in people if noun != phrase.noun]
            return Pair(phrase, self.phrase(self.pick(others), plural=0, adjective=0.2))
        return replace(phrase, determiner="der") if self.chance(0.07) else phrase

    def object(self, action: Action, subject: Subject) -> NounPhrase:
        """What the action is done to: another noun than the subject's, in the number that the action asks for."""
        noun = self.pick([noun for noun in nouns_that_fit(action.object) if noun not in subject.nouns])
        phrase = self.phrase(noun, plural=0.1 if action.number == "any" else 0, adjective=action.described)
        several = bool(noun.plural) and (action.number == "many" or (action.number == "each" and subject.several))
        if noun.plural and subject.possessive and self.chance(action.owned):
            german, english = subject.possessive
            return replace(phrase, determiner=german, plural=several, owner=english)
        return replace(phrase, determiner="", plural=True) if several else phrase

    def landmark(self, determiner: str, name: str) -> NounPhrase:
        """The noun of a place; a known one is not described."""
        noun = NOUNS[name]
        adjectives = () if determiner == "der" else self.adjectives(noun, 0.12)
        return NounPhrase(noun, adjectives, determiner, plural=determiner not in ("der", "ein"))

    def place(self, wanted: Tags) -> tuple[str, str]:
        preposition, determiner, name, english, _ = self.pick(rows_that_fit("places", wanted))
        phrase = self.landmark(determiner, name)
        return prepositional(preposition, phrase, "dat"), join(english, phrase.english())

    def goal(self, wanted: Tags) -> tuple[tuple[str, str], str]:
        """(German, English) and the particle."""
        preposition, case, determiner, name, particle, english, _ = self.pick(rows_that_fit("goals", wanted))
        phrase = self.landmark(determiner, name)
        return (prepositional(preposition, phrase, case), join(english, phrase.english())), particle

    def action(self, subject: Subject, busy: frozenset[str] = frozenset(), **wanted) -> Action | None:
        """Something that the subject can do while parts of it are busy, with keys of the lexicon as wanted."""
        moods = {adjective.english for adjective in subject.adjectives}
        owner = subject.possessive is not None
        choice = actions_of(subject.nouns, subject.several, owner, busy, tuple(wanted.items()))
        choice = [action for action in choice if not action.unless & moods]
        return self.pick(choice, [action.weight for action in choice]) if choice else None

    def predicate(self, action: Action, subject: Subject, brief: bool = False) -> Predicate:
        """The action with all it takes; a brief one names a place only if it always does."""
        parts = {}
        if action.receiver:
            noun = self.pick([noun for noun in nouns_that_fit(action.receiver) if noun not in subject.nouns])
            receiver = self.phrase(noun, plural=0.15, adjective=0.25)
            parts["receiver"] = receiver.german("dat"), receiver.english()
        if action.object:
            phrase = self.object(action, subject)
            parts["object"] = join(action.mit, phrase.german(action.case)), join(action.with_, phrase.english())
            parts["known_object"] = bool(phrase.owner) and not action.mit
        if action.place and (action.where == 1 or not brief) and self.chance(action.where):
            parts["place"] = self.place(action.place)
        if action.goal and self.chance(action.whither):
            parts["goal"], parts["goal_particle"] = self.goal(action.goal)
        return Predicate(action.verb, **parts)

    # Sentence patterns: each gives (German, English) without capital and full stop, or None where it does not apply.

    def plain(self, subject: Subject):
        """Eine Frau hebt einen Ball auf."""
        predicate = self.predicate(self.action(subject), subject)
        return clause(subject, predicate)

    def fronted(self, subject: Subject):
        """Am See verstecken sich zwei Kinder: the place first, the verb still second."""
        predicate = self.predicate(self.action(subject), subject)
        if not predicate.place[0]:
            return None
        rest = replace(predicate, place=("", ""))
        german = join(predicate.place[0], rest.main(subject.agreement, subject.german("nom")))
        return german, f"{predicate.place[1]}, {subject.english()} {be(subject)} {rest.ing}"

    def dressed(self, subject: Subject):
        """Ein Mann in einem roten Hemd singt."""
        wear = self.action(subject, verb=WEAR)
        action = self.action(subject, dressed=True)
        if not wear or not action or isinstance(subject, Pair):
            return None
        clothes = self.object(wear, subject)
        mit, with_ = ("mit", "with") if "on" in clothes.noun.tags else ("in", "in")
        predicate = self.predicate(action, subject)
        german = join(subject.german("nom"), mit, clothes.german("dat"), predicate.main(subject.agreement))
        return german, join(subject.english(), with_, clothes.english(), be(subject), predicate.ing)

    def relative(self, subject: Subject):
        """Ein Mann, der einen Hut trägt, singt: verb-final in German, a participle in English."""
        if isinstance(subject, Pair) or subject.determiner == "Gruppe":
            return None
        inner = self.action(subject, verb=WEAR) if self.chance(0.6) else self.action(subject, dressed=True)
        outer = inner and self.action(subject, inner.busy, dressed=True)
        if not outer or outer.verb == inner.verb:
            return None
        aside, predicate = self.predicate(inner, subject, brief=True), self.predicate(outer, subject)
        if (aside.somewhere and predicate.somewhere) or not aside.middle():
            return None
        who = DEFINITE["pl" if subject.plural else subject.noun.gender][0]  # relative pronoun and article look alike
        told = f"{who} {aside.verb_final(subject.agreement)}"
        german = f"{subject.german('nom')}, {told}, {predicate.main(subject.agreement)}"
        return german, join(subject.english(), aside.ing, be(subject), predicate.ing)

    def two_at_once(self, subject: Subject):
        """The predicates of two actions that one subject can do at the same time; only the first says where."""
        first = self.action(subject, dressed=True)
        second = first and self.action(subject, first.busy, dressed=True)
        if not second or first.verb == second.verb:
            return None
        both = self.predicate(first, subject), self.predicate(second, subject, brief=True)
        return None if both[1].somewhere else both

    def joined(self, subject: Subject):
        """Ein Kind sitzt im Gras und isst einen Apfel."""
        if not (both := self.two_at_once(subject)):
            return None
        german, english = clause(subject, both[0])
        return f"{german} und {both[1].main(subject.agreement)}", f"{english} and {both[1].ing}"

    def meanwhile_same(self, subject: Subject):
        """Eine Frau sitzt im Gras, während sie ein Buch liest."""
        if not subject.pronoun or not (both := self.two_at_once(subject)):
            return None
        german, english = clause(subject, both[0])
        he = subject.pronoun
        german += f", während {he[0]} {both[1].verb_final(subject.agreement)}"
        return german, f"{english} while {he[1]} {be(subject)} {both[1].ing}"

    def meanwhile_other(self, subject: Subject):
        """Eine Frau liest ein Buch, während ein Hund im Gras liegt."""
        other = self.subject()
        first, second = self.action(subject), self.action(other)
        if isinstance(other, Pair) or first.verb == second.verb or set(subject.nouns) & set(other.nouns):
            return None
        german, english = clause(subject, self.predicate(first, subject))
        predicate = self.predicate(second, other, brief=True)
        german += f", während {predicate.verb_final(other.agreement, other.german('nom'))}"
        return german, f"{english} while {other.english()} {be(other)} {predicate.ing}"

    def attempted(self, subject: Subject):
        """Ein Junge versucht, einen Ball zu fangen."""
        if not (action := self.action(subject, attempt=True)):
            return None
        predicate, trying = self.predicate(action, subject, brief=True), Predicate(VERBS["versuchen"])
        german, english = clause(subject, trying)
        return f"{german}, {predicate.to_infinitive()}", f"{english} to {predicate.english(predicate.verb.base)}"

    def titled(self, subject: Subject):
        """Zwei Frauen auf einer Bank: no verb at all."""
        predicate = self.predicate(self.action(subject), subject)
        if not predicate.place[0]:
            return None
        return join(subject.german("nom"), predicate.place[0]), join(subject.english(), predicate.place[1])

    def passive(self, subject: Subject):
        """Ein Hund wird im Park von einer Frau gestreichelt; the subject is the one who acts."""
        action = self.action(subject, passive=True)
        if not action or isinstance(subject, Pair) or subject.plural:
            return None
        patient = self.object(replace(action, owned=0.0), subject)
        place = self.place(action.place) if action.place and self.chance(action.where) else ("", "")
        become = "werden" if patient.agreement else "wird"
        by = prepositional("von", subject, "dat")
        german = join(patient.german("nom"), become, place[0], by, action.verb.participle)
        being = f"{be(patient)} being {action.verb.english_participle} by"
        return german, join(patient.english(), being, subject.english(), place[1])

    def caption(self) -> tuple[str, str]:
        """One (German, English) pair."""
        while True:
            pattern = self.pick(list(PATTERNS), list(PATTERNS.values()))
            if pair := pattern(self, self.subject()):
                return sentence(pair[0]), sentence(pair[1])


PATTERNS = {  # pattern → weight
    Author.plain: 30,
    Author.dressed: 15,
    Author.joined: 14,
    Author.fronted: 13,
    Author.relative: 11,
    Author.meanwhile_other: 7,
    Author.meanwhile_same: 7,
    Author.attempted: 6,
    Author.passive: 6,
    Author.titled: 5,
}


def be(subject: Subject) -> str:
    return "are" if subject.agreement else "is"


def clause(subject: Subject, predicate: Predicate) -> tuple[str, str]:
    """Subject and predicate in their plain order, in both languages."""
    german = join(subject.german("nom"), predicate.main(subject.agreement))
    return german, join(subject.english(), be(subject), predicate.ing)


def captions(seed: int) -> Iterator[tuple[str, str]]:
    """Pairs without end, none twice."""
    author, seen = Author(seed), set()
    while True:
        pair = author.caption()
        if pair[0] not in seen:
            seen.add(pair[0])
            yield pair
