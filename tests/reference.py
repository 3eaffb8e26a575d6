"""Oracles that share no code with what they check."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from lntutor.learner import Learner
from lntutor.measure import feed
from lntutor.model import Transformer
from lntutor.reading import positions
from lntutor.weights import Weights, matrices


class Leaves(dict):
    """A model's matrices as float64 leaves, so that plain autograd gives their gradients."""

    @classmethod
    def of(cls, cfg, seed, dtype=torch.float64):
        drawn = Weights(cfg, (seed,), dtype)
        return cls({m.name: drawn[m.name].clone().requires_grad_() for m in matrices(cfg)})


def plain_gradients(cfg, seed, inputs):
    """name → ∂L/∂W by plain float64 autograd: no Gram matrices, no shared passes, one seed."""
    leaves = Leaves.of(cfg, seed)
    fed = feed(cfg, inputs, (seed,), torch.float64)
    out = Transformer(cfg, leaves)(*fed.sequences)
    fed.loss(out).backward()
    return {name: torch.zeros_like(w) if w.grad is None else w.grad for name, w in leaves.items()}


def layer_norm(x):
    """LN by its definition, in numpy."""
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def torch_layer(cfg, weights, side, layer, cls, norm_first):
    """A torch layer that holds the matrices, biases and gains of one of ours; torch keeps Wᵀ."""
    kwargs = {"dropout": 0.0, "batch_first": True, "norm_first": norm_first, "dtype": torch.float64}
    module = cls(cfg.width, cfg.heads, cfg.ffn, **kwargs)
    blocks = {"self": module.self_attn} | (
        {"cross": module.multihead_attn} if hasattr(module, "multihead_attn") else {}
    )
    with torch.no_grad():
        for block, attention in blocks.items():
            part = {p: weights[side, layer, block, p] for p in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O")}
            attention.in_proj_weight.copy_(torch.cat([part["W_Q"].T, part["W_K"].T, part["W_V"].T]))
            attention.in_proj_bias.copy_(torch.cat([part["b_Q"], part["b_K"], part["b_V"]]))
            attention.out_proj.weight.copy_(part["W_O"].T)
            attention.out_proj.bias.copy_(part["b_O"])
        for linear, number in ((module.linear1, "1"), (module.linear2, "2")):
            linear.weight.copy_(weights[side, layer, "ffn", f"W_{number}"].T)
            linear.bias.copy_(weights[side, layer, "ffn", f"b_{number}"])
        norms = [module.norm1, module.norm2] + ([module.norm3] if hasattr(module, "norm3") else [])
        for i, norm in enumerate(norms):
            norm.weight.copy_(weights[side, layer, "norm", i, "gain"])
            norm.bias.copy_(weights[side, layer, "norm", i, "bias"])
    return module


ENCODER, DECODER = nn.TransformerEncoderLayer, nn.TransformerDecoderLayer


class Twin(nn.Module):
    """The same model from torch's layers, which hold copies of a learner's weights; the head is the embedding."""

    def __init__(self, learner: Learner):
        super().__init__()
        cfg, w = learner.cfg, {name: t.detach().clone() for name, t in learner.weights.items()}
        first, self.width, self.pad = cfg.placement.key == "pre", cfg.width, learner.pad
        self.source, self.target = (nn.Parameter(w["embedding", side]) for side in cfg.sides)
        layers = range(1, cfg.depth + 1)
        self.encoder = nn.ModuleList(torch_layer(cfg, w, "encoder", i, ENCODER, first) for i in layers)
        self.decoder = nn.ModuleList(torch_layer(cfg, w, "decoder", i, DECODER, first) for i in layers)
        make = (lambda: nn.LayerNorm(cfg.width, dtype=torch.float64)) if first else nn.Identity
        self.last = nn.ModuleList([make(), make()])

    def embedded(self, ids, table):
        places = torch.from_numpy(positions(ids.shape[1], self.width)).to(table)
        return F.embedding(ids, table) * self.width**0.5 + places

    def forward(self, source, target):
        blank = source == self.pad
        x, y = self.embedded(source, self.source), self.embedded(target, self.target)
        for layer in self.encoder:
            x = layer(x, src_key_padding_mask=blank)
        x = self.last[0](x)
        ahead = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        for layer in self.decoder:
            y = layer(y, x, ahead, tgt_key_padding_mask=target == self.pad, memory_key_padding_mask=blank)
        return self.last[1](y) @ self.target.T
