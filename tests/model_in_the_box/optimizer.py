"""Muon for matrices, AdamW for the rest.

Muon moves a matrix along its momentum with all singular values made about 1 (Newton-Schulz iterations in
bfloat16); expert matrices are a batch of them.
"""

import torch


def orthogonal(matrices: torch.Tensor, steps: int) -> torch.Tensor:
    """[n, rows, columns] -> the nearest matrices with singular values of about 1."""
    x = matrices.bfloat16()
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.mT
    x = x / (x.float().norm(dim=(1, 2), keepdim=True).bfloat16() + 1e-7)
    for _ in range(steps):
        square = torch.bmm(x, x.mT)
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return (x.mT if tall else x).float()


class Muon(torch.optim.Optimizer):
    def __init__(self, parameters, rate: float, momentum: float = 0.95, decay: float = 0.0, steps: int = 4):
        super().__init__(parameters, {"lr": rate, "momentum": momentum, "decay": decay, "steps": steps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                momentum = state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                update = p.grad.lerp(momentum, group["momentum"])
                rows = update.shape[-2] // 2 if p.ndim == 3 and update.shape[-2] > update.shape[-1] else update.shape[-2]
                columns = update.shape[-1]
                moved = orthogonal(update.reshape(-1, rows, columns), group["steps"]).view_as(p)
                p.mul_(1 - group["lr"] * group["decay"])
                p.add_(moved, alpha=-group["lr"] * max(1.0, rows / columns) ** 0.5)
