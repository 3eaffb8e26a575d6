"""The questions of the course as data: a readiness check, and a concept inventory taken at the start and at the end.

Every distractor is a misconception with a name, and its explanation says what is the case instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from lntutor.model.checks import as_tuple, check_type


@dataclass(frozen=True)
class Choice:
    """One answer. The right one has no misconception."""

    text: str
    explanation: str  # what a reader who picks it is told
    misconception: str = ""


@dataclass(frozen=True)
class Item:
    """A question with one right answer, and what to read where it is shaky."""

    key: str
    prompt: str
    choices: tuple[Choice, ...]
    read: str = ""

    def __post_init__(self):
        for choice in as_tuple("choices", self.choices, "(Choice('a', 'why'), Choice('b', 'why', 'name'))"):
            check_type("choices", choice, Choice)
        right = sum(not choice.misconception for choice in self.choices)
        texts = {choice.text for choice in self.choices}
        if right != 1 or len(texts) < max(2, len(self.choices)):
            raise ValueError(
                f"{self.key} must have one right choice among two or more different ones, got {right} right"
            )

    @property
    def right(self) -> Choice:
        """The choice without a misconception."""
        return next(choice for choice in self.choices if not choice.misconception)


READINESS = (
    Item("chain_rule", "y = Wx and L depends on y, with g = ∂L/∂y a column. What is ∂L/∂x?", (
        Choice("Wg", "Check the shapes: g is as long as y, and W takes vectors as long as x.", "forward again"),
        Choice("Wᵀg", "Going back through a matrix is multiplying by its transpose: all of notebook 04 is made of it."),
        Choice("g xᵀ", "That is ∂L/∂W, the gradient of the matrix, not of what went in.", "weight for input"),
    ), "Any account of backpropagation through a linear layer; do the case of a 2 × 3 matrix by hand."),
    Item("frobenius", "What is the Frobenius norm of the 2 × 2 matrix with rows (1, 2) and (2, 4)?", (
        Choice("5", "√(1 + 4 + 4 + 16) = 5: the length of the matrix written as one long vector."),
        Choice("9", "That is the sum of the entries; the norm squares them first.", "sum of entries"),
        Choice("25", "That is the squared norm; take the root.", "squared norm"),
        Choice("0", "That is the determinant, which says nothing of size.", "determinant"),
    ), "The first page on matrix norms in a book on linear algebra; ‖A‖² = Σ A_ij² is all that is used here."),
    Item("variance_of_sum",
         "q and k have d independent coordinates, each with mean 0 and variance 1. What is the variance of q·k = Σ "
         "qᵢkᵢ?", (
        Choice("1", "Each of the d products has variance 1; what do independent variances do in a sum?",
               "average for sum"),
        Choice("√d", "That is the standard deviation, the typical size of q·k.", "deviation for variance"),
        Choice("d", "Variances of independent terms add, and each product has variance 1·1."),
        Choice("d²", "That would be so if all d products were the same number; they are independent.",
               "fully dependent"),
    ), "Variance of a sum of independent variables; then E[(qᵢkᵢ)²] = E[qᵢ²]·E[kᵢ²]."),
)  # fmt: skip

INVENTORY = (
    Item("ln_axis",
         "A batch of sentences has the shape (sentences, tokens, features). Over what does layer normalization take "
         "mean and variance?", (
        Choice("over the sentences of the batch, feature by feature", "That is batch normalization.",
               "LN runs over the batch"),
        Choice("over the tokens of a sentence, feature by feature",
               "Then a token's output would depend on its neighbours; LN's does not.", "LN runs over the sequence"),
        Choice("over the features of one token", "Every token on its own, in training and in use alike (notebook 02)."),
    )),
    Item("ln_backward",
         "x goes through LN. You multiply x by 10. What happens to the gradient of the loss with respect to x?", (
        Choice("it stays the same, because LN normalises", "The output stays the same; the gradient does not.",
               "LN normalises gradients"),
        Choice("it becomes 10 times smaller",
               "LN's output does not change, so a step in x counts for a tenth: backward, LN divides by the size of "
               "what went in (notebook 02)."),
        Choice("it becomes 10 times larger",
               "The gradient says how much the loss changes per unit of x, and a unit is now a smaller part of x.",
               "scale goes the same way"),
    )),
    Item("adam_step",
         "Adam takes its first step. One weight has a gradient 100 times that of another. How do their steps "
         "compare?", (
        Choice("the first is 100 times larger", "That is SGD. Adam divides by the gradient's own size.",
               "a bigger gradient is a bigger step under Adam"),
        Choice("the first is 10 times larger",
               "Adam divides by the root of the squared gradient, which is the gradient's size, not its root.",
               "a root is left over"),
        Choice("both are about the learning rate",
               "At the first step m/√v is ±1 wherever there is a gradient (notebook 05)."),
    )),
    Item("pre_stream",
         "In a Pre-LN Transformer the size of the residual stream grows with depth. What does that mean?", (
        Choice("the network is unstable at initialisation",
               "Every sub-layer and the head read the stream through LN; its growth makes later gradients smaller, "
               "not larger.", "a growing stream is instability"),
        Choice("something was left out: LN keeps the stream at one size",
               "In Pre-LN the norm stands in the branch; nothing normalises the stream until the end.",
               "LN holds the stream"),
        Choice("later layers change the stream by a smaller share",
               "Each adds about the same amount to a larger sum, and the final LN divides the gradient by its size "
               "(notebooks 03, 04)."),
    )),
    Item("pre_balance",
         "Gradients of W₂ in a deep Pre-LN decoder or encoder at initialisation, layer by layer: what do you expect?", (
        Choice("exactly the same size in every layer",
               "About the same is what the paper says; measured, the low layers are larger.", "Pre-LN is balanced"),
        Choice("larger in the low layers",
               "The stream is smaller there, and the LN in the branch divides the gradient by less (notebook 05)."),
        Choice("much larger in the top layer", "That is the picture of a Post-LN decoder.",
               "Pre-LN looks like Post-LN"),
    )),
    Item("pre_better", "Which of these is true of Pre-LN and Post-LN?", (
        Choice("Pre-LN is better in every respect",
               "It trains without warm-up; where Post-LN trains, it often ends as well or better, and other "
               "placements try to have both.", "Pre-LN is always better"),
        Choice("Post-LN cannot be trained in deep networks",
               "With warm-up, at moderate depth, it is what the first Transformers used.", "Post-LN is hopeless"),
        Choice("which is better depends on depth, learning rate and warm-up",
               "That is what notebooks 05 to 09 measure."),
    )),
    Item("upper_bound",
         "Theorem 1 says that the last layer's gradient in Post-LN is at most O(d√(ln d)). What follows?", (
        Choice("it is not larger than that; how large it is must be found in another way",
               "Notebook 04 gets the size itself, and it is far below the bound."),
        Choice("that gradient is large", "At most says nothing about at least: 0 satisfies the bound too.",
               "an upper bound is a size"),
        Choice("training without warm-up fails",
               "A bound on a gradient at initialisation is several steps away from a statement about training.",
               "a bound explains training"),
    )),
    Item("layer_or_depth",
         "Plot A: the gradient in each layer of one 12-layer network. Plot B: the gradient of the last layer, for "
         "networks of 1 to 12 layers. How are they related?", (
        Choice("they share one point: the top layer of the 12-layer network",
               "All other points belong to different networks (notebook 05 links the two views)."),
        Choice("they show the same curve",
               "In A the network is one and the layer moves; in B the layer is the last and the network changes.",
               "by layer and by depth are the same plot"),
        Choice("they have nothing in common", "The top bar of A is a point of B.", "unrelated plots"),
    )),
    Item("post_last_layer",
         "A Post-LN encoder gets deeper: 6, 12, 24 layers. What happens to the gradient of its last layer at "
         "initialisation?", (
        Choice("it explodes with depth",
               "Within one network gradients may differ by layer; the last layer's size does not grow with depth.",
               "Post-LN explodes with depth"),
        Choice("it stays about the same",
               "Its last LN is always fed something of size √1.5 per feature, whatever the depth (notebook 04)."),
        Choice("it falls like 1/√L", "That is Pre-LN, whose final LN is fed a stream that grows.",
               "Post and Pre swapped"),
    )),
    Item("uniform_attention", "With W_Q = W_K = 0, what does attention over n tokens of d features compute?", (
        Choice("the mean of the values: weights 1/n",
               "The softmax runs over the n keys; every position gets the same vector, and tokens become alike "
               "(notebook 03)."),
        Choice("a sum with weights 1/d", "The softmax runs over keys, of which there are n; d counts features.",
               "softmax over features"),
        Choice("nothing: its output is 0", "The scores are 0; the softmax of equal scores is not.",
               "zero scores, zero output"),
        Choice("a linear layer on each token by itself", "It is linear, and it mixes all tokens.",
               "uniform attention does not mix"),
    )),
)  # fmt: skip
