"""Exercises of 03_placement. References: torch's TransformerEncoder, the mean-field streams, an integral by sums."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import numpy as np
import torch
from torch import nn

from lntutor.lesson.exercises import Exercise, Mistake, maker, normal
from lntutor.model.config import Inputs, ModelConfig
from lntutor.theory.mean_field import predict

# Write the stack -----------------------------------------------------------------------------------------------


class SubLayer:
    """x (n, d) → (n, d): an attention or an FFN with a name to show."""

    def __init__(self, name: str, function):
        self.name, self.function = name, function

    def __call__(self, x):
        return self.function(x)

    def __repr__(self) -> str:
        return self.name


class SubLayers(list):
    """The sub-layers of a stack in order, and torch's encoder that is made of the same modules."""

    encoder: nn.TransformerEncoder


def _encoder(random, d: int, depth: int, norm_first: bool) -> tuple[nn.TransformerEncoder, nn.LayerNorm]:
    """torch's encoder with weights of its own, in which all norms are one, with a gain and a bias."""
    norm = nn.LayerNorm(d)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(random.integers(2**31)))
        layers = [
            nn.TransformerEncoderLayer(d, 2, 2 * d, dropout=0.0, batch_first=True, norm_first=norm_first)
            for _ in range(depth)
        ]
        nn.init.normal_(norm.weight, 1.0, 0.3)
        nn.init.normal_(norm.bias, 0.0, 0.3)
    encoder = nn.TransformerEncoder(layers[0], depth, norm if norm_first else None, enable_nested_tensor=False)
    encoder.layers = nn.ModuleList(layers)  # it has copied the first: every layer would be the same
    for layer in layers:
        layer.norm1 = layer.norm2 = norm
    return encoder.requires_grad_(False), norm.requires_grad_(False)


@maker
def _stack_of(random, n: int, d: int, depth: int, norm_first: bool):
    """x, the sub-layers, the norm and norm_first."""
    encoder, norm = _encoder(random, d, depth, norm_first)
    subs = SubLayers()
    layer: Any  # pyright takes any attribute of a torch module for a tensor
    for layer in encoder.layers:
        subs.append(SubLayer("attention", lambda x, f=layer.self_attn: f(x, x, x, need_weights=False)[0]))
        subs.append(SubLayer("FFN", lambda x, f=layer: f.linear2(torch.relu(f.linear1(x)))))
    subs.encoder = encoder
    return normal(random, n, d), subs, norm, norm_first


def _stack(x, subs, N, norm_first):
    return subs.encoder(x)


RULES = {  # of a sub-layer f with a norm N
    "post": lambda x, f, N: N(x + f(x)),
    "pre": lambda x, f, N: x + f(N(x)),
    "norm on the skip": lambda x, f, N: N(x) + f(N(x)),
    "norm on the branch": lambda x, f, N: x + N(f(x)),
    "post without skip": lambda x, f, N: N(f(x)),
    "pre without skip": lambda x, f, N: f(N(x)),
}


def _by_steps(post="post", pre="pre", after_post=False, after_pre=True):
    """The stack with one thing changed."""

    def stack(x, subs, N, norm_first):
        for f in subs:
            x = RULES[pre if norm_first else post](x, f, N)
        return N(x) if (after_pre if norm_first else after_post) else x

    return stack


STACK = Exercise(
    "stack", "function", _stack,
    shows="Your stack equals torch's TransformerEncoder, layer after layer, for both values of norm_first. One "
    "line inside the loop differs, and one line after it.",
    hint="Hint 1 says what stands inside the loop; Hint 2 says what stands after it.",
    inputs=(_stack_of(2, 4, 1, False), _stack_of(2, 4, 1, True), _stack_of(3, 8, 3, False), _stack_of(3, 8, 3, True)),
    mistakes=(
        Mistake("no final norm",
            "Every layer is right. In Pre-LN nothing has normalised the stream itself when it leaves the last layer, "
            "and it has grown: look at the very top of Pre-LN's diagram.",
            (_by_steps(after_pre=False),)),
        Mistake("normalises the skip",
            "In your Pre-LN the skip carries the normalised x, so the stream starts anew at size 1 in every sub-layer "
            "and what the layers below have added is rescaled. Follow the skip in the diagram: what does it pass?",
            (_by_steps(pre="norm on the skip"), _by_steps(pre="norm on the skip", after_pre=False))),
        Mistake("final norm after Post-LN",
            "Post-LN's last step is a norm already; yours puts a second one on top. With gain 1 and bias 0 you would "
            "not notice, since a norm of a norm changes nothing; this one has a gain and a bias.",
            (_by_steps(after_post=True),)),
        Mistake("norm on the branch only",
            "Your Post-LN normalises what the sub-layer says and then adds x. That is a placement with a name of its "
            "own, Res-Post-LN. In Post-LN the norm reads the sum.",
            (_by_steps(post="norm on the branch"),
             _by_steps(post="norm on the branch", after_post=True),
             _by_steps(post="norm on the branch", after_pre=False))),
        Mistake("no skip",
            "The sub-layer's input is lost: nothing carries x past the sub-layer. Every placement of this exercise "
            "adds x back.",
            (_by_steps("post without skip", "pre without skip"),
             _by_steps("post without skip", "pre without skip", after_pre=False),
             _by_steps(post="post without skip"),
             _by_steps(pre="pre without skip"))),
        Mistake("the two are swapped",
            "Your Post-LN is Pre-LN and the other way round. norm_first says whether the norm stands before the "
            "sub-layer.",
            (_by_steps("pre", "post", after_post=True, after_pre=False),
             _by_steps("pre", "post"),
             _by_steps("pre", "post", after_pre=False))),
        Mistake("norm_first ignored",
            "You do the same whatever norm_first says, so one of the two is right. The other needs another line.",
            (_by_steps(pre="post", after_pre=False),
             _by_steps(pre="post"),
             _by_steps(post="pre", after_post=True),
             _by_steps(post="pre"))),
    ),
)  # fmt: skip


# Predict the growth --------------------------------------------------------------------------------------------


def _pre_growth(layers, attentions):
    """E‖x_l‖²/d from the mean-field streams: an encoder has one attention per layer, a decoder with memory has two."""
    stack = {1: "encoder", 2: "encoder-decoder"}[attentions]
    cfg = ModelConfig.theorem("pre", max(layers, 1), 16).with_(stack=stack)
    table = predict(cfg, "signal", inputs=Inputs(tokens=1))
    here = (table["side"] == cfg.sides[-1]) & (table["layer"] == layers) & (table["site"] != "final")
    return float(table.loc[here & table["site"].isin(["in", "out"]), "value"].to_numpy()[0])


def _some(attentions: int):
    return lambda random: (int(random.integers(3, 9)), attentions)


PRE_GROWTH = Exercise(
    "pre_growth", "function", _pre_growth,
    shows="Your formula equals the mean-field prediction for the encoder and for a decoder with cross-attention. It "
    "is a sum, not a product, because every branch reads a stream that was normalised first.",
    hint="Hint 1 asks what each branch adds; Hint 2 says how the additions combine.",
    inputs=(lambda random: (1, 1), lambda random: (0, 1), _some(1), _some(2)),
    mistakes=(
        Mistake("forgets the attention",
            "You add what the FFN says and leave out the attention. At one token there is nothing to average: what is "
            "the size of its output then?",
            (lambda layers, attentions: 1 + layers / 2,)),
        Mistake("forgets the FFN",
            "You add what the attention says and leave out the FFN, the second kind of branch in every layer.",
            (lambda layers, attentions: 1 + layers * attentions,)),
        Mistake("one attention only",
            "For an encoder this is right. A decoder that reads an encoder has two attentions in a layer, and each of "
            "them adds to the stream.",
            (lambda layers, attentions: 1 + 1.5 * layers,)),
        Mistake("forgets ReLU's half",
            "You let the FFN add as much as an attention. Between its two matrices stands a ReLU: how much of the "
            "squared size does Lemma 1 leave?",
            (lambda layers, attentions: 1 + (attentions + 1) * layers,)),
        Mistake("multiplies",
            "You let the stream grow by a factor in every layer. That is the stack without LN, where a branch is as "
            "large as what it reads. In Pre-LN a branch reads a normalised copy: does its size depend on the stream's?",
            (lambda layers, attentions: (attentions + 1.5) ** layers,
             lambda layers, attentions: (2**attentions * 1.5) ** layers)),
        Mistake("forgets the input",
            "You count what the layers add and leave out what entered: with no layer at all the stream is the input, "
            "of size 1.",
            (lambda layers, attentions: (attentions + 0.5) * layers,)),
        Mistake("the size, not its square",
            "You give ‖x‖/√d. The question is about its square, ‖x‖²/d, because squares of independent parts add up.",
            (lambda layers, attentions: sqrt(1 + (attentions + 0.5) * layers),)),
    ),
)  # fmt: skip


# Lemma 1 for another activation --------------------------------------------------------------------------------


def _kept(slope):
    """The integral of φ(z)² over the normal density, as a sum over fine strips."""
    z = (np.arange(-400_000, 400_000) + 0.5) * 2e-5  # to ±8
    density = np.exp(-(z**2) / 2) / sqrt(2 * pi)
    return float((np.where(z > 0, z, slope * z) ** 2 * density).sum() * 2e-5)


KEPT = Exercise(
    "kept", "function", _kept,
    shows="Your formula equals the integral, done by brute force. At slope 0 it is Lemma 1's half, at slope 1 nothing "
    "is lost; in between an FFN adds that much to the stream.",
    hint="Hint 1 splits the expectation in two; Hint 2 says what the negative half adds.",
    inputs=(lambda random: (0.5,), lambda random: (0.0,), lambda random: (float(random.uniform(0.1, 0.9)),)),
    mistakes=(
        Mistake("the negative half is lost",
            "You keep the positive half only, which is ReLU. Here the negative half is passed on as well, smaller.",
            (lambda slope: 0.5,)),
        Mistake("slope not squared",
            "You weigh the negative half by the slope. What is averaged is the square of the output.",
            (lambda slope: (1 + slope) / 2,)),
        Mistake("a variance, not a mean square",
            "You subtracted the square of the mean. Lemma 1 speaks of E‖φ(X)‖², from which nothing is subtracted: the "
            "next matrix sees the mean too.",
            (lambda slope: (1 + slope**2) / 2 - (1 - slope) ** 2 / (2 * pi),)),
        Mistake("not halved",
            "You count each half of the line in full. Each has probability one half.",
            (lambda slope: 1 + slope**2,)),
        Mistake("the size, not its square",
            "You took a root. Lemma 1 speaks of the squared size.",
            (lambda slope: sqrt((1 + slope**2) / 2),)),
    ),
)  # fmt: skip


# Which placement is this? --------------------------------------------------------------------------------------

WHICH_PLACEMENT = Exercise(
    "which_placement", "text",
    ("res_post", "res-post", "res post", "res-post-ln", "res post ln", "res-post-norm", "res post norm", "res-postnorm",
     "reordered norm", "Res-Post-LN (res_post)"),
    shows="The norm reads the branch and the skip passes everything: Res-Post-LN, of Swin v2 and OLMo 2. Code with "
    "this line is often called Post-LN; its stream grows, and Post-LN's does not.",
    hint="Hint 1 says where to look in the code; Hint 2 has a measurement that rules Post-LN out.",
    mistakes=(
        Mistake("believes the comment",
            "That is what the comment says. Write the line as a rule with N and f: does the norm read the sum?",
            ("post", "post-ln", "post ln", "postln", "post-norm", "post norm", "Post-LN (post)")),
        Mistake("sees only the clean skip",
            "The skip is clean, as in Pre-LN. Pre-LN has the norm before the sub-layer: where does it stand here?",
            ("pre", "pre-ln", "pre ln", "preln", "pre-norm", "pre norm", "Pre-LN (pre)")),
        Mistake("one norm too many",
            "Peri-LN has two norms in each branch, before and after the sub-layer. Count the norms here.",
            ("peri", "peri-ln", "peri ln", "sandwich", "sandwich-ln", "Peri-LN (peri)")),
    ),
)  # fmt: skip

EXERCISES = (STACK, PRE_GROWTH, KEPT, WHICH_PLACEMENT)
