"""The gated delta net of Qwen3.5's kind, for rows that hold several documents.

Tokens are taken in chunks of 64. Within a chunk all updates of the state are solved at once as a triangular
system; from chunk to chunk the state is carried. A document's tokens never see another's: pairs within a chunk are
masked, and the state is carried only to the tokens of the document that the last chunk ended with.
"""

import torch
import torch.nn.functional as F
from torch import nn

CHUNK = 64


class GatedNorm(nn.Module):
    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x, gate):
        return F.rms_norm(x.float(), (x.shape[-1],), self.weight, self.eps) * F.silu(gate.float())


class DeltaNet(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.keys, self.values = config.linear_num_key_heads, config.linear_num_value_heads
        self.size, self.taps = config.linear_key_head_dim, config.linear_conv_kernel_dim
        hidden, key, value = config.hidden_size, self.keys * self.size, self.values * self.size
        self.cuts = [key, key, value]
        channels = sum(self.cuts)
        self.conv1d = nn.Conv1d(channels, channels, self.taps, groups=channels, bias=False)
        self.dt_bias = nn.Parameter(torch.ones(self.values))
        self.A_log = nn.Parameter(torch.empty(self.values).uniform_(0.01, 4).log())
        self.norm = GatedNorm(self.size, config.rms_norm_eps)
        self.out_proj = nn.Linear(value, hidden, bias=False)
        self.in_proj_qkv = nn.Linear(hidden, channels, bias=False)
        self.in_proj_z = nn.Linear(hidden, value, bias=False)
        self.in_proj_b = nn.Linear(hidden, self.values, bias=False)
        self.in_proj_a = nn.Linear(hidden, self.values, bias=False)

    def forward(self, x, layout):
        batch, length, _ = x.shape
        mixed = self.convolved(self.in_proj_qkv(x), layout.document)
        q, k, v = mixed.split(self.cuts, -1)
        beta = self.in_proj_b(x).float().sigmoid()
        log_decay = -self.A_log.exp() * F.softplus(self.in_proj_a(x).float() + self.dt_bias)
        ratio = self.values // self.keys

        def heads(part, count, repeat):
            part = part.view(batch, length, count, self.size).transpose(1, 2)
            return part.repeat_interleave(repeat, 1) if repeat > 1 else part

        def unit(part):
            return part * torch.rsqrt((part * part).sum(-1, keepdim=True) + 1e-6)

        with torch.autocast("cpu", enabled=False):
            out = delta_rule(
                unit(heads(q.float(), self.keys, ratio)) * self.size**-0.5,
                unit(heads(k.float(), self.keys, ratio)),
                heads(v.float(), self.values, 1),
                log_decay.transpose(1, 2),
                beta.transpose(1, 2),
                layout.document,
            ).transpose(1, 2)
        z = self.in_proj_z(x).view(batch, length, self.values, self.size)
        return self.out_proj(self.norm(out, z).reshape(batch, length, -1))

    def convolved(self, u, document):
        """SiLU of the causal convolution; taps that would reach into another document give nothing."""
        weight = self.conv1d.weight[:, 0].to(u.dtype)
        out = u * weight[:, -1]
        for back in range(1, self.taps):
            same = (document[:, back:] == document[:, :-back])[..., None].to(u.dtype)
            part = u[:, :-back] * same * weight[:, -1 - back]
            out = out + F.pad(part, (0, 0, back, 0))
        return F.silu(out)


def delta_rule(q, k, v, log_decay, beta, document):
    """q, k, v: [batch, heads, length, size]; log_decay, beta: [batch, heads, length]; document: [batch, length]."""
    batch, heads, length, size = q.shape
    pad = -length % CHUNK
    if pad:
        q, k, v = (F.pad(x, (0, 0, 0, pad)) for x in (q, k, v))
        log_decay, beta = (F.pad(x, (0, pad)) for x in (log_decay, beta))
        document = torch.cat((document, document[:, -1:].expand(-1, pad)), 1)
    q, k, v = (x.reshape(batch, heads, -1, CHUNK, size) for x in (q, k, v))
    log_decay, beta = (x.reshape(batch, heads, -1, CHUNK) for x in (log_decay, beta))
    document = document.reshape(batch, 1, -1, CHUNK)
    chunks = q.shape[2]

    total = log_decay.cumsum(-1)
    lower = torch.ones(CHUNK, CHUNK, dtype=torch.bool).tril()
    pairs = (document[..., :, None] == document[..., None, :]) & lower
    decay = (total[..., :, None] - total[..., None, :]).masked_fill(~pairs, float("-inf")).exp()
    last = document[..., -1]
    before = F.pad(last[..., :-1], (1, 0), value=-1)
    carried = (document == before[..., None]).float()  # tokens that see the carried state
    leaving = (document == last[..., None]).float()  # tokens that go into the state that is carried on
    kept = (last == before).float()

    system = (k * beta[..., None]) @ k.mT * decay
    right = torch.cat((v * beta[..., None], k * (beta * total.exp() * carried)[..., None]), -1)
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    new, old = solved.split(size, -1)
    attention = q @ k.mT * decay
    q = q * (total.exp() * carried)[..., None]
    k = k * ((total[..., -1:] - total).exp() * leaving)[..., None]
    through = (total[..., -1].exp() * kept)[..., None, None]

    state = q.new_zeros(batch, heads, size, size)
    out = []
    for c in range(chunks):
        written = new[:, :, c] - old[:, :, c] @ state
        out.append(q[:, :, c] @ state + attention[:, :, c] @ written)
        state = state * through[:, :, c] + k[:, :, c].mT @ written
    return torch.cat(out, 2)[:, :, :length]
