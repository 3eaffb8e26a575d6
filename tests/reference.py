"""Oracles that share no code with what they check."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from lntutor.measure.inputs import feed
from lntutor.model.parameters import positions
from lntutor.model.transformer import Transformer
from lntutor.model.weight_bank import Weights, matrices
from lntutor.training.network import Learner, initial_weights


def matrix_leaves(cfg, seed):
    """A model's matrices by name as float64 leaves, so that plain autograd gives their gradients."""
    drawn = Weights(cfg, (seed,), torch.float64)
    return {m.name: drawn[m.name].clone().requires_grad_() for m in matrices(cfg)}


def plain_gradients(cfg, seed, inputs):
    """name → ∂L/∂W by plain float64 autograd: no Gram matrices, no shared passes, one seed."""
    leaves = matrix_leaves(cfg, seed)
    fed = feed(cfg, inputs, (seed,), torch.float64)
    out = Transformer(cfg, leaves)(*fed.sequences)
    fed.loss(out).backward()
    return {name: torch.zeros_like(w) if w.grad is None else w.grad for name, w in leaves.items()}


def moved_weights(cfg, seed=0):
    """Name → float64 leaf of all that learns but the embeddings, each entry moved a little, as after some training."""
    random = torch.Generator().manual_seed(seed)
    start = initial_weights(cfg, seed, (7,) * len(cfg.sides), torch.float64)
    return {
        name: (w + 0.1 * torch.randn(w.shape, generator=random, dtype=torch.float64)).requires_grad_()
        for name, w in start.items()
        if name[0] != "embedding"
    }


def layer_norm(x):
    """LN by its definition, in numpy."""
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def torch_layer(cfg, weights, side, layer, norm_first):
    """A torch layer that holds the matrices, biases and gains of one of ours; torch keeps Wᵀ."""
    cls = nn.TransformerEncoderLayer if side == "encoder" else nn.TransformerDecoderLayer
    kwargs = {"dropout": 0.0, "batch_first": True, "norm_first": norm_first, "dtype": torch.float64}
    module = cls(cfg.width, cfg.heads, cfg.ffn, **kwargs)
    attentions = {"self": module.self_attn} | ({"cross": module.multihead_attn} if side == "decoder" else {})
    with torch.no_grad():
        for block, attention in attentions.items():
            part = {p: weights[side, layer, block, p] for p in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O")}
            attention.in_proj_weight.copy_(torch.cat([part["W_Q"].T, part["W_K"].T, part["W_V"].T]))
            attention.in_proj_bias.copy_(torch.cat([part["b_Q"], part["b_K"], part["b_V"]]))
            attention.out_proj.weight.copy_(part["W_O"].T)
            attention.out_proj.bias.copy_(part["b_O"])
        for linear, number in ((module.linear1, "1"), (module.linear2, "2")):
            linear.weight.copy_(weights[side, layer, "ffn", f"W_{number}"].T)
            linear.bias.copy_(weights[side, layer, "ffn", f"b_{number}"])
        for i in range(len(attentions) + 1):
            copy_norm(getattr(module, f"norm{i + 1}"), weights, side, layer, i)
    return module


@torch.no_grad()
def copy_norm(norm, weights, side, layer, number=0):
    """Gain and bias of one of our norms, put into one of torch's."""
    norm.weight.copy_(weights[side, layer, "norm", number, "gain"])
    norm.bias.copy_(weights[side, layer, "norm", number, "bias"])
    return norm


class TorchLayers(nn.Module):
    """An encoder–decoder of torch's layers that hold copies of our weights, with a last norm for Pre-LN only."""

    def __init__(self, cfg, weights):
        super().__init__()
        first = cfg.placement.key == "pre"
        for side in ("encoder", "decoder"):
            layers = [torch_layer(cfg, weights, side, i, first) for i in range(1, cfg.depth + 1)]
            if first:
                layers.append(copy_norm(nn.LayerNorm(cfg.width, dtype=torch.float64), weights, side, cfg.depth + 1))
            setattr(self, side, nn.ModuleList(layers))

    def run(self, x, y, blank_source=None, blank_target=None):
        """(batch, n, d) and (batch, m, d) → (batch, m, d); the masks are true at padding."""
        for layer in self.encoder:
            x = layer(x) if isinstance(layer, nn.LayerNorm) else layer(x, src_key_padding_mask=blank_source)
        ahead = torch.ones(y.shape[1], y.shape[1], dtype=torch.bool).triu(1)
        blank = {"tgt_key_padding_mask": blank_target, "memory_key_padding_mask": blank_source}
        for layer in self.decoder:
            y = layer(y) if isinstance(layer, nn.LayerNorm) else layer(y, x, ahead, **blank)
        return y


class Twin(TorchLayers):
    """The same model as a learner from torch's layers, with copies of its weights; the head is the embedding."""

    def __init__(self, learner: Learner):
        weights = {name: t.detach().clone() for name, t in learner.weights.items()}
        super().__init__(learner.cfg, weights)
        self.width, self.pad = learner.cfg.width, learner.pad
        self.source, self.target = (nn.Parameter(weights["embedding", side]) for side in learner.cfg.sides)

    def embedded(self, ids, table):
        places = torch.from_numpy(positions(ids.shape[1], self.width)).to(table)
        return F.embedding(ids, table) * self.width**0.5 + places

    def forward(self, source, target):
        x, y = self.embedded(source, self.source), self.embedded(target, self.target)
        return self.run(x, y, source == self.pad, target == self.pad) @ self.target.T
