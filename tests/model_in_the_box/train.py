#!/usr/bin/env python3
"""Trains a box model: train.py FOLDER --architecture qwen3moe [--steps N] [--seed N]

FOLDER gets tokenizer.json, checkpoint.pt (every 20 steps; training goes on from it), log.jsonl and, at the end,
model.safetensors with config.json as transformers reads them. Two processes of one thread each share the
parameters: each computes the gradient of half a batch and updates half of the matrices, which loses less to other
work on the machine than two threads that wait for each other in every operation. Time is counted by steps, so
pauses don't count. The learning rate falls from half of the steps on: until then --steps can still be changed.
"""

import argparse
import json
import os
import shutil
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

import batches
import configurations
import copying
import inheritance
import vocabulary_training
from network import Network
from optimizer import Muon

WARM_UP, CHECKPOINT, BALANCE = 40, 20, 0.01
LATE = 0.75  # of the steps: from there on more of the harder kinds
LONGEST = 20.0  # seconds of one step; more means that the machine was paused


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--architecture", choices=configurations.BY_NAME, default="qwen3moe")
    parser.add_argument("--steps", type=int, default=1100)
    parser.add_argument("--tokens", type=int, default=2048, help="per step and process")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--muon", type=float, default=0.02, help="the learning rate of matrices in blocks")
    parser.add_argument("--adam", type=float, default=3e-3, help="the learning rate of everything else")
    parser.add_argument("--fewer", type=int, default=2, help="experts used until --fewer-until; 0: never fewer")
    parser.add_argument("--fewer-until", type=int, default=620, help="a step")
    parser.add_argument("--begin-with", type=Path, help="a trained folder, whose weights are taken where they fit")
    parser.add_argument("--stop", type=int, help="stop after this step, schedule unchanged")
    return parser.parse_args()


def schedule(step: int, steps: int) -> float:
    """Warm-up, level, and from half of the steps on straight down to 2 %."""
    return min((step + 1) / WARM_UP, 1.0, 0.02 + 0.98 * (steps - step) / (steps * 0.5))


class Worker:
    """One process: its share of every batch, and of the parameters those that it updates."""

    def __init__(self, rank: int, network, gradients, options):
        self.rank, self.network, self.gradients, self.options = rank, network, gradients, options
        parameters = list(network.parameters())
        at, self.mine = 0, []
        for parameter in parameters:
            parameter.grad = gradients[rank][at : at + parameter.numel()].view_as(parameter)
            at += parameter.numel()
        # Matrices in blocks cost most: both kinds are dealt out in turn.
        blocks = {id(p) for p in network.model.layers.parameters() if p.ndim >= 2 and min(p.shape[-2:]) >= 64}
        dealt = sorted(range(len(parameters)), key=lambda i: (-parameters[i].numel(), i))
        mine = {i for n, i in enumerate(dealt) if n % options.processes == rank}
        self.mine = [parameters[i] for i in sorted(mine)]
        matrices = [p for p in self.mine if id(p) in blocks]
        rest = [p for p in self.mine if id(p) not in blocks]
        groups = [
            {"params": [p for p in rest if p.ndim >= 2], "weight_decay": 0.01},
            {"params": [p for p in rest if p.ndim < 2], "weight_decay": 0.0},
        ]
        adam = torch.optim.AdamW(groups, lr=options.adam, betas=(0.9, 0.95), fused=True)
        self.optimizers = [(adam, options.adam), (Muon(matrices, options.muon, decay=0.1), options.muon)]

    def add_gradients(self) -> None:
        """The sum of all processes' gradients, for the parameters of this one."""
        at = 0
        mine = {id(p) for p in self.mine}
        for parameter in self.network.parameters():
            if id(parameter) in mine:
                total = sum(g[at : at + parameter.numel()] for g in self.gradients)
                parameter.grad.view(-1).copy_(total / self.options.processes)
            at += parameter.numel()

    def update(self, step: int) -> None:
        for parameter in self.mine:
            norm = parameter.grad.norm()
            parameter.grad.mul_((1.0 / norm.clamp(min=1e-9)).clamp(max=1.0))
        for optimizer, rate in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * schedule(step, self.options.steps)
            optimizer.step()


def loss_of(network, batch):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = network(batch.tokens, batch.document, batch.position)
        used = batch.weights.reshape(-1).nonzero().squeeze(1)
        logits = network.lm_head(hidden.reshape(-1, hidden.shape[-1]).index_select(0, used))
    losses = torch.nn.functional.cross_entropy(logits.float(), batch.targets.reshape(-1)[used], reduction="none")
    weights = batch.weights.reshape(-1)[used]
    return (losses * weights).sum() / weights.sum()


def save_atomically(value, path: Path) -> None:
    torch.save(value, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def work(rank: int, network, gradients, barrier, options, begun: int, seconds: float) -> None:
    torch.set_num_threads(1)
    folder = options.folder
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    source = batches.Batches(tokenizer, options.seed, options.tokens, int(LATE * options.steps) * options.processes)
    worker = Worker(rank, network, gradients, options)
    states = folder / f"optimizer-{rank}.pt"
    if begun:
        for (optimizer, _), state in zip(worker.optimizers, torch.load(states.with_suffix(f".{begun}"))):
            optimizer.load_state_dict(state)
    log = open(folder / f"log-{rank}.jsonl", "a")
    for step in range(begun, min(options.steps, options.stop or options.steps)):
        began = time.monotonic()
        gradients[rank].zero_()
        if options.fewer:
            network.use(options.fewer if step < options.fewer_until else network.config.num_experts_per_tok)
        loss = loss_of(network, source.number(step * options.processes + rank))
        balance = network.balance()
        (loss + BALANCE * balance).backward()
        computed = time.monotonic()
        barrier.wait()
        worker.add_gradients()
        worker.update(step)
        barrier.wait()
        taken = time.monotonic() - began
        seconds += min(taken, LONGEST)
        line = {"step": step + 1, "loss": round(loss.item(), 4), "balance": round(balance.item(), 3)}
        line |= {"own": round(computed - began, 2), "taken": round(taken, 2), "seconds": round(seconds)}
        print(json.dumps(line), file=log, flush=True)
        if (step + 1) % CHECKPOINT == 0 or step + 1 == options.steps:
            kept = states.with_suffix(f".{step + 1}")
            torch.save([optimizer.state_dict() for optimizer, _ in worker.optimizers], kept)
            barrier.wait()
            if rank == 0:
                state = {"network": network.state_dict(), "step": step + 1, "seconds": seconds}
                save_atomically(state, folder / "checkpoint.pt")
            for old in folder.glob(f"optimizer-{rank}.*"):
                if old != kept and int(old.suffix[1:]) < step + 1 - CHECKPOINT:
                    old.unlink()


def main() -> None:
    options = arguments()
    torch.manual_seed(options.seed)
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "tokenizer.json").exists():
        if options.begin_with:
            for name in ("tokenizer.json", "tokenizer_config.json"):
                shutil.copy(options.begin_with / name, folder / name)
        else:
            vocabulary_training.train(folder, options.seed)
    config = configurations.BY_NAME[options.architecture](vocabulary_training.SIZE)
    network = Network(config)
    if options.begin_with:
        inheritance.inherit(network, torch.load(options.begin_with / "checkpoint.pt")["network"])
    elif options.architecture == "qwen3moe":
        copying.lay(network)
    begun, seconds = 0, 0.0
    if (folder / "checkpoint.pt").exists():
        saved = torch.load(folder / "checkpoint.pt")
        network.load_state_dict(saved["network"])
        begun, seconds = saved["step"], saved["seconds"]
    network.share_memory()
    size = sum(parameter.numel() for parameter in network.parameters())
    gradients = [torch.zeros(size).share_memory_() for _ in range(options.processes)]
    context = torch.multiprocessing.get_context("spawn")
    barrier = context.Barrier(options.processes)
    arguments_of_work = (network, gradients, barrier, options, begun, seconds)
    torch.multiprocessing.spawn(work, arguments_of_work, nprocs=options.processes)
    state = {name: tensor.clone().contiguous() for name, tensor in network.state_dict().items()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(folder)


if __name__ == "__main__":
    main()
