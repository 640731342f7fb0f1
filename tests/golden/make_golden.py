#!/usr/bin/env python3
"""Makes tests/data/golden: tiny random models as GGUF files, and the logits that transformers computes from
them.

The truth has to be more exact than what it judges, so transformers runs in float64 throughout: its explicit
casts to float32 are redirected, and an operation that still gives float32 is an error. The weights are such
that the F32 values in the file are exactly the model's. Prompts are chosen so that no choice of experts is
close.

usage: make_golden.py [BEGINNING_OF_A_NAME ...]
"""

import contextlib
import json
import math
import sys
import zlib
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode

import convert
import models
import vocabulary

DESTINATION = Path(__file__).resolve().parent.parent / "data" / "golden"
SHORT, GREEDY = 17, 16
# The router logit of the last expert chosen leads the first one left out by this much at least; the best next
# token of the greedy continuation leads the second. Both are far above what F32 arithmetic or an F16 cache
# can change.
ROUTER_MARGIN, TOKEN_MARGIN = 0.02, 0.02
SINGLE = torch.float32


class OnlyDouble(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        if any(isinstance(output, torch.Tensor) and output.dtype == SINGLE for output in outputs):
            raise TypeError(f"{function} computed in float32")
        return result


@contextlib.contextmanager
def double_precision():
    """Inside, what transformers writes as float32 means float64."""
    saved = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        with OnlyDouble(), torch.no_grad():
            yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = saved
        torch.set_default_dtype(SINGLE)


def weights(name: str, shape: tuple, config: dict, random: np.random.Generator) -> np.ndarray:
    """Random values for one parameter, each exactly an F32 number once the converter's transform is applied
    to it."""

    def single(values) -> np.ndarray:
        return np.asarray(values).astype(np.float32).astype(np.float64)

    normal = random.standard_normal(shape)
    gpt_oss = config["model_type"] == "gpt_oss"
    if name.endswith("norm.weight"):
        gamma = single(1 + 0.2 * normal)
        zero_centred = convert.ARCHITECTURES[config["model_type"]] in convert.ZERO_CENTRED
        return gamma - 1 if zero_centred and not name.endswith("linear_attn.norm.weight") else gamma
    if name.endswith("A_log"):
        return np.log(single(np.exp(random.uniform(math.log(0.03), math.log(4), shape))))
    if name.endswith("dt_bias"):
        return single(random.uniform(-2, 1, shape))
    if name.endswith("sinks"):
        return single(0.5 + normal)
    if name.endswith(("bias", "_proj_bias")):
        return single(0.3 * normal)
    if name.endswith("conv1d.weight"):
        return single(0.5 * normal)
    if name.endswith("embed_tokens.weight"):
        # Also the output matrix if tied, so that logits then have a size of about 1.
        return single(normal / math.sqrt(shape[1]) if config["tie_word_embeddings"] else normal)
    inputs = shape[-2] if gpt_oss and "experts." in name else shape[-1]
    gain = 1.0
    if name.endswith(("gate.weight", "router.weight")):
        gain = 2.0
    elif name.endswith(("q_proj.weight", "k_proj.weight")):
        gain = 1.5
    elif name.endswith("experts.gate_up_proj"):
        gain = 2.5 if gpt_oss else 1.3  # reaches the clamp at 7
    elif name.endswith("down_proj"):
        gain = 0.3 if gpt_oss else 1.3
    elif name.endswith(("o_proj.weight", "out_proj.weight")):
        gain = 0.8
    return single(gain * normal / math.sqrt(inputs))


def as_mxfp4(values: np.ndarray) -> np.ndarray:
    """The nearest values that MXFP4 holds; blocks lie along a row of inputs, [experts, in, out] here."""
    kind = gguf.GGMLQuantizationType.MXFP4
    rows = np.ascontiguousarray(values.swapaxes(1, 2)).astype(np.float32)
    held = gguf.quants.dequantize(gguf.quants.quantize(rows, kind), kind)
    assert np.array_equal(gguf.quants.dequantize(gguf.quants.quantize(held, kind), kind), held)
    return held.reshape(rows.shape).astype(np.float64).swapaxes(1, 2)


def build(model: models.Model, random: np.random.Generator):
    """The network in float64, evaluation mode, with random weights."""
    config = model.config
    config.vocab_size = len(vocabulary.for_family(model.vocabulary).tokens)
    config.rms_norm_eps = float(np.float32(config.rms_norm_eps))
    config.use_cache = False
    config._attn_implementation = config._experts_implementation = "eager"
    network = model.kind(config).eval()
    facts = config.to_dict()
    for name, parameter in network.named_parameters():
        values = weights(name, tuple(parameter.shape), facts, random)
        if "mxfp4" in model.layout and name.endswith(("gate_up_proj", "down_proj")):
            values = as_mxfp4(values)
        parameter.copy_(torch.from_numpy(values))
    if convert.rope(facts)["rope_type"] == "llama3":
        # The file has F32 divisors: use these, after checking that they mean what transformers computes by
        # itself.
        head = config.head_dim
        divisors = torch.from_numpy(
            convert.llama3_divisors(facts, head).astype(np.float32).astype(np.float64)
        )
        speeds = (
            config.rope_parameters["rope_theta"] ** -(torch.arange(0, head, 2).double() / head) / divisors
        )
        own = network.model.rotary_emb.inv_freq
        assert torch.allclose(speeds, own, rtol=1e-6, atol=0)
        own.copy_(speeds)
    return network


class Routers:
    """Watches the routers of a network: the smallest lead at each position, and which experts were used."""

    def __init__(self, network):
        self.leads, self.used = [], {}
        for name, module in network.named_modules():
            if type(module).__name__.endswith("TopKRouter"):
                module.register_forward_hook(
                    lambda module, _, output, name=name: self.see(name, module.top_k, output)
                )

    def see(self, name: str, top_k: int, output) -> None:
        logits, _, chosen = output
        ordered = logits.sort(dim=-1, descending=True).values
        self.leads.append(ordered[:, top_k - 1] - ordered[:, top_k])
        self.used.setdefault(name, set()).update(chosen.flatten().tolist())

    def lead(self, shape: tuple) -> torch.Tensor:
        """Least lead over the layers since the last call, in the shape of the tokens; infinite without
        routers."""
        leads, self.leads = self.leads, []
        if not leads:
            return torch.full(shape, math.inf)
        return torch.stack([lead.reshape(shape) for lead in leads]).amin(dim=0)


def logits_of(network, tokens: torch.Tensor) -> torch.Tensor:
    return network(input_ids=tokens, use_cache=False).logits


def choose_prompt(network, routers: Routers, random: np.random.Generator, length: int, ordinary: int) -> list:
    """Random ordinary tokens, each redrawn until no router is undecided at it."""
    prompt = []
    while len(prompt) < length:
        drawn = random.integers(0, ordinary, size=(8 if routers.used or not prompt else 1, 1))
        batch = torch.tensor(
            np.concatenate([np.tile(prompt, (len(drawn), 1)), drawn], axis=1).astype(np.int64)
        )
        logits_of(network, batch)
        good = (routers.lead(tuple(batch.shape))[:, -1] > ROUTER_MARGIN).nonzero().flatten()
        if len(good):
            prompt.append(int(batch[good[0], -1]))
    return prompt


def continue_greedily(network, routers: Routers, prompt: list):
    """Tokens and leads, or None if a choice on the way is close."""
    tokens, leads = list(prompt), []
    for _ in range(GREEDY):
        logits = logits_of(network, torch.tensor([tokens]))[0, -1]
        best = logits.topk(2)
        leads.append(float(best.values[0] - best.values[1]))
        if leads[-1] < TOKEN_MARGIN or routers.lead((1, len(tokens))).min() < ROUTER_MARGIN:
            return None
        tokens.append(int(best.indices[0]))
    logits_of(network, torch.tensor([tokens]))
    if routers.lead((1, len(tokens))).min() < ROUTER_MARGIN:
        return None
    return tokens[len(prompt) :], leads


def check_file(path: Path, tensors: dict) -> None:
    """What the gguf package reads back is what was meant to be written."""
    reader = gguf.GGUFReader(path)
    assert {tensor.name for tensor in reader.tensors} == set(tensors)
    kinds = gguf.GGMLQuantizationType
    for tensor in reader.tensors:
        want, got = tensors[tensor.name], tensor.data
        assert tensor.tensor_type in (kinds.F32, kinds.MXFP4)
        if tensor.tensor_type == kinds.MXFP4:
            got = gguf.quants.dequantize(got, kinds.MXFP4)
        assert [int(n) for n in reversed(tensor.shape)] == list(want.shape)
        assert np.array_equal(got.reshape(want.shape), want)


def make(model: models.Model) -> None:
    random = np.random.default_rng(zlib.crc32(model.name.encode()))
    words = vocabulary.for_family(model.vocabulary)
    ordinary = 256
    with double_precision():
        network = build(model, random)
        routers = Routers(network)
        for attempt in range(100):
            prompt = choose_prompt(network, routers, random, SHORT, ordinary)
            continuation = continue_greedily(network, routers, prompt)
            routers.leads.clear()
            # Small models like to repeat themselves; be content with less the longer it takes.
            if continuation and len(set(continuation[0])) >= GREEDY // 2 - attempt // 4:
                break
        else:
            raise SystemExit(f"{model.name}: no prompt with a clear continuation found")
        long_prompt = choose_prompt(network, routers, random, model.long, ordinary)
        logits = logits_of(network, torch.tensor([prompt]))[0].numpy()
        long_logits = logits_of(network, torch.tensor([long_prompt]))[0].numpy()
    borders = {7, 8, 15, 16, 31, 32, 62, 63, 64, 65, 126, 127, 128}
    long_positions = sorted({p for p in borders if p < model.long} | {model.long - 2, model.long - 1})
    long_logits = long_logits[long_positions]

    # Quantised files have a folder of their own: exact arithmetic is not what every device does with them.
    destination = DESTINATION / "mxfp4" if "mxfp4" in model.layout else DESTINATION
    destination.mkdir(parents=True, exist_ok=True)
    path = destination / f"{model.name}.gguf"
    state = {name: value.numpy() for name, value in network.state_dict().items()}
    tensors = convert.convert(
        state,
        model.config.to_dict(),
        words,
        path,
        f"{model.name} (random weights)",
        lossless=True,
        layout=model.layout,
    )
    check_file(path, tensors)
    logits.astype("<f8").tofile(destination / f"{model.name}.logits.bin")
    long_logits.astype("<f8").tofile(destination / f"{model.name}.long.logits.bin")
    versions = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"
    facts = {
        "name": model.name,
        "source": f"{versions}, {model.kind.__name__}, float64",
        "dtype": "float64",
        "n_vocab": logits.shape[1],
        "prompt": prompt,
        "positions": list(range(SHORT)),
        "shape": list(logits.shape),
        "greedy": continuation[0],
        "greedy_margin": [round(lead, 6) for lead in continuation[1]],
        "long_prompt": long_prompt,
        "long_positions": long_positions,
        "long_shape": list(long_logits.shape),
    }
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in facts.items())
    (destination / f"{model.name}.json").write_text("{\n" + lines + "\n}\n")
    experts = getattr(model.config, "num_experts", 0)
    unused = sum(experts - len(used) for used in routers.used.values())
    size, rms = path.stat().st_size, float(np.sqrt((logits**2).mean()))
    print(f"{model.name}: {size} bytes, logits RMS {rms:.2f}, experts unused {unused}", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    for model in models.all_models():
        if len(sys.argv) == 1 or model.name.startswith(tuple(sys.argv[1:])):
            make(model)


if __name__ == "__main__":
    main()
